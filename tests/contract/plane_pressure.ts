/** Slow consumers, full windows, large records, flushing on command. */
import { assert, assertEquals } from "@std/assert";
import {
  assertQuiet,
  bytesOf,
  ended,
  HoldingProducer,
  introduce,
  newStream,
  numberedItems,
  pair,
  produce,
  type Scenario,
} from "./plane_harness.ts";

/** Scenarios for `testPlane`. */
export const PRESSURE: Record<string, Scenario> = {
  "delivers nothing while paused, then everything in order": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    stream.anchor.pause();
    for (const item of numberedItems(8)) stream.sender.sendData(bytesOf(item));
    stream.sender.finalize();
    await harness.linger();
    assertEquals([stream.consumer.items, stream.consumer.ends], [[], []]);
    stream.anchor.resume();
    await ended(harness, [stream]);
    assertEquals(stream.consumer.items, numberedItems(8));
    await assertQuiet(harness, frontend, worker);
  },
  "pauses in the middle of what has arrived": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    stream.consumer.takes = 3;
    for (const item of numberedItems(9)) stream.sender.sendData(bytesOf(item));
    stream.sender.finalize();
    for (const count of [3, 5]) {
      await harness.until(() => stream.consumer.items.length === count, `${count} items`);
      await harness.linger();
      assertEquals(stream.consumer.items, numberedItems(count));
      stream.consumer.take(2);
    }
    stream.consumer.take(Infinity);
    await ended(harness, [stream]);
    assertEquals(stream.consumer.items, numberedItems(9));
    await assertQuiet(harness, frontend, worker);
  },
  "holds its producer back within the window": async (harness) => {
    const [frontend, worker] = await pair(harness, 8);
    const stream = newStream(frontend, worker);
    stream.anchor.pause();
    const producer = produce(stream, 1_000);
    await harness.linger();
    assert(producer.sent <= 9, `${producer.sent} items were taken from a window of 8`);
    assertEquals(stream.sender.writable, false);
    stream.consumer.take(Infinity);
    await ended(harness, [stream]);
    assertEquals(stream.consumer.items, numberedItems(1_000));
    await assertQuiet(harness, frontend, worker);
  },
  // ai-dynamo/dynamo#15001: stop and kill had no effect while the consumer was slow.
  "stops a producer whose window is closed": async (harness) => {
    for (const frontendDrops of [true, false]) {
      const [frontend, worker] = await pair(harness, 1);
      const stream = newStream(frontend, worker);
      stream.anchor.pause();
      const producer = produce(stream, 10);
      await harness.linger();
      assertEquals(stream.sender.writable, false);
      if (frontendDrops) {
        stream.anchor.cancel("kill");
        await harness.until(() => producer.ends.length > 0, "the producer to hear of it");
      } else {
        // The producer's own end waits its turn; nothing is lost before it.
        stream.sender.fail("gave up");
        stream.consumer.take(Infinity);
        await ended(harness, [stream]);
        assertEquals(stream.consumer.items, numberedItems(producer.sent));
        assertEquals(stream.consumer.ends, [{ kind: "transport_error", message: "gave up" }]);
      }
      await assertQuiet(harness, frontend, worker);
    }
  },
  "does not let a slow consumer stop others": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const slow = newStream(frontend, worker);
    slow.anchor.pause();
    const producer = produce(slow, 5_000, "slow");
    const others = Array.from({ length: 50 }, () => newStream(frontend, worker));
    for (const other of others) produce(other, 200);
    await ended(harness, others);
    for (const { consumer } of others) assertEquals(consumer.items, numberedItems(200));
    assertEquals(slow.consumer.items, []);
    slow.anchor.cancel("done");
    await harness.until(() => producer.ends.length > 0, "the producer to hear of it");
    await assertQuiet(harness, frontend, worker);
  },
  "ends alone the stream of a producer that does not hold back": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const [wild, tame] = [newStream(frontend, worker), newStream(frontend, worker)];
    wild.anchor.pause();
    const block = new Uint8Array(65_536);
    for (let i = 0; i < 100 && wild.sender.ended === null; i++) wild.sender.sendData(block);
    assertEquals(wild.sender.sendData(block), false);
    produce(tame, 100);
    await ended(harness, [tame]);
    wild.consumer.take(Infinity);
    await ended(harness, [wild]);
    assertEquals(tame.consumer.items, numberedItems(100));
    assertEquals(wild.consumer.ends.map((end) => end.kind), ["dropped"]);
    await assertQuiet(harness, frontend, worker);
  },
  "carries records over the eager budget in their place": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    const other = newStream(frontend, worker);
    stream.consumer.isCounting = true;
    const sizes = [10, 300_000, 20, 400_000, 262_144, 262_145, 30, 900_000, 1];
    const producer = new HoldingProducer(
      stream.sender,
      sizes.length,
      (index) => new Uint8Array(sizes[index]!).fill(index),
    );
    producer.pump();
    produce(other, 100);
    await ended(harness, [stream, other]);
    assertEquals(stream.consumer.items, sizes.map(String));
    assertEquals([stream.consumer.ends, other.consumer.ends], [[{ kind: "finalized" }], [{
      kind: "finalized",
    }]]);
    assertEquals(other.consumer.items, numberedItems(100));
    await assertQuiet(harness, frontend, worker);
  },
  // The place of the first stream was given to the second while the large record was still on its way.
  "starts a stream behind one whose last record is large": async (harness) => {
    const [frontend, worker] = await pair(harness);
    for (let round = 0; round < 3; round++) {
      const first = newStream(frontend, worker);
      first.consumer.isCounting = true;
      first.sender.sendData(new Uint8Array(500_000));
      first.sender.finalize();
      const next = newStream(frontend, worker);
      produce(next, 5);
      await ended(harness, [first, next]);
      assertEquals([first.consumer.items, next.consumer.items], [["500000"], numberedItems(5)]);
      assertEquals([first.consumer.ends, next.consumer.ends], [[{ kind: "finalized" }], [{
        kind: "finalized",
      }]]);
    }
    await assertQuiet(harness, frontend, worker);
  },
  "writes on flushBatch alone when told so": async (harness) => {
    const frontend = await harness.node();
    const worker = await harness.node({ manualFlush: true });
    introduce(frontend, worker);
    const stream = newStream(frontend, worker);
    stream.sender.sendData(bytesOf("first")); // opens the stream: it may leave at once
    worker.plane.flushBatch();
    await harness.until(() => stream.consumer.items.length === 1, "the first item");
    stream.sender.sendData(bytesOf("second"));
    stream.sender.sendData(bytesOf("third"));
    await harness.linger();
    assertEquals(stream.consumer.items, ["first"]);
    worker.plane.flushBatch();
    await harness.until(() => stream.consumer.items.length === 3, "the flushed items");
    stream.sender.finalize();
    worker.plane.flushBatch();
    await ended(harness, [stream]);
    assertEquals(stream.consumer.ends, [{ kind: "finalized" }]);
    await assertQuiet(harness, frontend, worker);
  },
};
