/** What a stream is: order, ends, tickets. */
import { assertEquals, assertNotEquals } from "@std/assert";
import {
  assertQuiet,
  bytesOf,
  ended,
  introduce,
  newStream,
  numberedItems,
  pair,
  produce,
  type Scenario,
  TakingConsumer,
} from "./plane_harness.ts";

/** Scenarios for `testPlane`. */
export const BASE: Record<string, Scenario> = {
  "delivers data and notes in order, then the end": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    const { consumer, sender } = stream;
    sender.sendNote("head");
    for (const item of numberedItems(10)) sender.sendData(bytesOf(item));
    sender.sendNote("tail");
    sender.finalize();
    await ended(harness, [stream]);
    assertEquals(consumer.items, ["#head", ...numberedItems(10), "#tail"]);
    assertEquals(consumer.ends, [{ kind: "finalized" }]);
    assertEquals(sender.ended, "finished");
    await assertQuiet(harness, frontend, worker);
  },
  "delivers an empty stream and an empty item": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const [empty, one] = [newStream(frontend, worker), newStream(frontend, worker)];
    empty.sender.finalize();
    one.sender.sendData(new Uint8Array(0));
    one.sender.finalize();
    await ended(harness, [empty, one]);
    assertEquals([empty.consumer.items, one.consumer.items], [[], [""]]);
    assertEquals([empty.consumer.ends, one.consumer.ends], [[{ kind: "finalized" }], [{
      kind: "finalized",
    }]]);
    await assertQuiet(harness, frontend, worker);
  },
  "copies what it is given before the call returns": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    const bytes = new Uint8Array(1);
    for (let i = 0; i < 26; i++) {
      bytes[0] = 97 + i;
      stream.sender.sendData(bytes);
    }
    stream.sender.finalize();
    await ended(harness, [stream]);
    assertEquals(stream.consumer.items.join(""), "abcdefghijklmnopqrstuvwxyz");
  },
  // ai-dynamo/dynamo#14750: a typed error that came through one plane was lost on another.
  "carries the producer's error text and typed notes": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    const text = 'invalid_request: "max_tokens" must be 1 or more \u{1F600} \n\u0000';
    stream.sender.sendNote('{"v":1,"status":400}');
    stream.sender.fail(text);
    await ended(harness, [stream]);
    assertEquals(stream.consumer.items, ['#{"v":1,"status":400}']);
    assertEquals(stream.consumer.ends, [{ kind: "transport_error", message: text }]);
    await assertQuiet(harness, frontend, worker);
  },
  "ends a dropped stream as dropped, behind its data": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    stream.sender.sendData(bytesOf("a"));
    stream.sender.drop();
    await ended(harness, [stream]);
    assertEquals(stream.consumer.items, ["a"]);
    assertEquals(stream.consumer.ends.map((end) => end.kind), ["dropped"]);
    await assertQuiet(harness, frontend, worker);
  },
  "counts the first end alone and takes nothing after it": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    stream.sender.sendData(bytesOf("a"));
    stream.sender.fail("first");
    stream.sender.finalize();
    stream.sender.drop();
    assertEquals(stream.sender.sendData(bytesOf("late")), false);
    await ended(harness, [stream]);
    await harness.linger();
    assertEquals(stream.consumer.items, ["a"]);
    assertEquals(stream.consumer.ends, [{ kind: "transport_error", message: "first" }]);
    await assertQuiet(harness, frontend, worker);
  },
  "stops the producer when the consumer cancels, and tells the consumer nothing": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    const ends: string[] = [];
    stream.sender.onEnded = (why) => ends.push(why);
    stream.sender.sendData(bytesOf("a"));
    await harness.until(() => stream.consumer.items.length === 1, "the first item");
    stream.anchor.cancel("client disconnected");
    stream.anchor.cancel("again");
    await harness.until(() => ends.length > 0, "the producer to hear of it");
    assertEquals(stream.sender.sendData(bytesOf("b")), false);
    await harness.linger();
    assertEquals([ends.length, stream.consumer.ends.length, stream.consumer.items], [1, 0, ["a"]]);
    assertNotEquals(stream.sender.ended, null);
    await assertQuiet(harness, frontend, worker);
  },
  "takes a cancel before the first record": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    const ends: string[] = [];
    stream.sender.onEnded = (why) => ends.push(why);
    stream.anchor.cancel("client disconnected");
    await harness.linger();
    stream.sender.sendData(bytesOf("a"));
    await harness.until(() => ends.length > 0, "the producer to hear of it");
    assertEquals(stream.consumer.items, []);
    await assertQuiet(harness, frontend, worker);
  },
  "takes a cancel from inside the delivery of an item": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    stream.consumer.onData = () => {
      stream.consumer.items.push("x");
      stream.anchor.cancel("enough");
    };
    for (const item of numberedItems(5)) stream.sender.sendData(bytesOf(item));
    await harness.until(() => stream.sender.ended !== null, "the producer to hear of it");
    assertEquals([stream.consumer.items, stream.consumer.ends], [["x"], []]);
    await assertQuiet(harness, frontend, worker);
  },
  "serves a ticket once": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const first = newStream(frontend, worker);
    first.sender.sendData(bytesOf("a"));
    await harness.until(() => first.consumer.items.length === 1, "the first item");
    const second = worker.plane.open(first.anchor.ticket);
    second.sendData(bytesOf("intruder"));
    await harness.until(() => second.ended !== null, "the second use to be refused");
    first.sender.sendData(bytesOf("b"));
    first.sender.finalize();
    await ended(harness, [first]);
    assertEquals(first.consumer.items, ["a", "b"]);
    assertEquals(first.consumer.ends, [{ kind: "finalized" }]);
    await assertQuiet(harness, frontend, worker);
  },
  "refuses a ticket of another frontend and one that is not its holder's": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const [other, thief] = [await harness.node(), await harness.node()];
    for (const node of [worker, thief]) introduce(other, node);
    introduce(frontend, thief);
    const stream = newStream(frontend, worker);
    // Another frontend's streams have the same local ids.
    const alien = newStream(other, worker);
    const misled = worker.plane.open({ ...stream.anchor.ticket, peer: other.messenger.peerInfo });
    const stolen = thief.plane.open(stream.anchor.ticket);
    for (const sender of [misled, stolen]) sender.sendData(bytesOf("intruder"));
    await harness.until(() => misled.ended !== null && stolen.ended !== null, "both to be refused");
    for (const one of [stream, alien]) {
      produce(one, 3);
      await ended(harness, [one]);
      assertEquals(one.consumer.items, numberedItems(3));
      assertEquals(one.consumer.ends, [{ kind: "finalized" }]);
    }
    await assertQuiet(harness, frontend, other, worker, thief);
  },
  "gives up a stream that no sender opens": async (harness) => {
    const frontend = await harness.node({ acceptTimeoutMs: 50 });
    const worker = await harness.node();
    introduce(frontend, worker);
    const consumer = new TakingConsumer();
    frontend.plane.register(consumer, worker.messenger.instanceId);
    await harness.until(() => consumer.ends.length > 0, "the end");
    assertEquals(consumer.ends.map((end) => end.kind), ["timeout"]);
    await assertQuiet(harness, frontend, worker);
  },
  "runs onDelivered once for what one read brought": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    let pending = 0;
    let flushed = 0;
    const { consumer } = stream;
    consumer.onData = () => pending++;
    frontend.plane.onDelivered(() => {
      flushed += pending;
      pending = 0;
    });
    produce(stream, 20);
    await ended(harness, [stream]);
    await harness.until(() => flushed === 20, "everything to be flushed");
    assertEquals(pending, 0);
  },
};
