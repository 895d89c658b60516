/** Lost nodes, cut connections, partitions, draining, closing. */
import { assert, assertEquals } from "@std/assert";
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
} from "./plane_harness.ts";

/** Scenarios for `testPlane`. */
export const FAULTS: Record<string, Scenario> = {
  "ends the streams of a lost worker once, and no others": async (harness) => {
    const [frontend, victim] = await pair(harness);
    const survivor = await harness.node();
    introduce(frontend, survivor);
    const lost = Array.from({ length: 20 }, () => newStream(frontend, victim));
    const kept = Array.from({ length: 20 }, () => newStream(frontend, survivor));
    for (const { sender } of [...lost, ...kept]) sender.sendData(bytesOf("t0"));
    const haveBegun = () => [...lost, ...kept].every(({ consumer }) => consumer.items.length === 1);
    await harness.until(haveBegun, "every stream to begin");
    harness.kill(victim);
    await ended(harness, lost);
    for (const { consumer } of lost) assertEquals(consumer.ends.map((end) => end.kind), ["dropped"]);
    for (const { sender } of kept) {
      sender.sendData(bytesOf("t1"));
      sender.finalize();
    }
    await ended(harness, kept);
    for (const { consumer } of kept) {
      assertEquals(consumer.items, ["t0", "t1"]);
      assertEquals(consumer.ends, [{ kind: "finalized" }]);
    }
    await harness.linger();
    for (const { consumer } of lost) assertEquals(consumer.ends.length, 1);
    await assertQuiet(harness, frontend, survivor);
  },
  "ends the senders of a lost frontend, and serves another frontend on": async (harness) => {
    const [victim, worker] = await pair(harness);
    const survivor = await harness.node();
    introduce(survivor, worker);
    const lost = Array.from({ length: 20 }, () => newStream(victim, worker));
    const ends = lost.map(({ sender }) => {
      const heard: string[] = [];
      sender.onEnded = (why) => heard.push(why);
      sender.sendData(bytesOf("x"));
      return heard;
    });
    const kept = newStream(survivor, worker);
    kept.sender.sendData(bytesOf("t0"));
    await harness.until(() => lost.every(({ consumer }) => consumer.items.length === 1), "all to begin");
    harness.kill(victim);
    await harness.until(() => lost.every(({ sender }) => sender.ended !== null), "every sender to end");
    assert(ends.every((heard) => heard.length === 1));
    kept.sender.sendData(bytesOf("t1"));
    kept.sender.finalize();
    await ended(harness, [kept]);
    assertEquals(kept.consumer.items, ["t0", "t1"]);
    await assertQuiet(harness, survivor, worker);
  },
  "serves a frontend that came back under a new id": async (harness) => {
    const [before, worker] = await pair(harness);
    const lost = newStream(before, worker);
    lost.sender.sendData(bytesOf("t0"));
    await harness.until(() => lost.consumer.items.length === 1, "the first item");
    harness.kill(before);
    const after = await harness.node();
    introduce(after, worker);
    // The new one counts its streams from the beginning again.
    const stream = newStream(after, worker);
    produce(stream, 50);
    await ended(harness, [stream]);
    assertEquals(stream.consumer.items, numberedItems(50));
    await harness.until(() => lost.sender.ended !== null, "the old sender to end");
    await assertQuiet(harness, after, worker);
  },
  "ends each stream of a cut connection once, whichever way it is cut": async (harness) => {
    const [frontend, worker] = await pair(harness);
    for (const [from, to] of [[worker, frontend], [frontend, worker]] as const) {
      const streams = Array.from({ length: 40 }, () => newStream(frontend, worker));
      const producers = streams.map((stream) => {
        return produce(stream, 2_000);
      });
      await harness.until(() => streams.every(({ consumer }) => consumer.items.length > 40), "all to run");
      harness.cut(from, to);
      await ended(harness, streams);
      await harness.until(() => streams.every(({ sender }) => sender.ended !== null), "every sender to end");
      await harness.linger();
      for (const [index, { consumer }] of streams.entries()) {
        assertEquals(consumer.ends.length, 1);
        assertEquals(consumer.items, numberedItems(consumer.items.length), "a gap or a double");
        if (consumer.ends[0]!.kind === "finalized") assertEquals(consumer.items.length, 2_000);
        assert(producers[index]!.ends.length <= 1);
      }
      await assertQuiet(harness, frontend, worker);
      const next = newStream(frontend, worker);
      produce(next, 10);
      await ended(harness, [next]);
      assertEquals(next.consumer.items, numberedItems(10));
      assertEquals(next.consumer.ends, [{ kind: "finalized" }]);
    }
  },
  "loses nothing in a short partition": async (harness) => {
    if (harness.partition === undefined) return;
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    const producer = produce(stream, 3_000);
    await harness.until(() => stream.consumer.items.length > 20, "the stream to run");
    const heal = harness.partition(frontend, worker);
    for (let i = 0; i < 50; i++) await harness.linger();
    assertEquals(stream.consumer.ends, []);
    heal();
    await ended(harness, [stream]);
    assertEquals(stream.consumer.items, numberedItems(3_000));
    assertEquals(producer.ends, []);
    await assertQuiet(harness, frontend, worker);
  },
  "ends a stream whose sender falls silent for good": async (harness) => {
    if (harness.partition === undefined) return;
    const [frontend, worker] = await pair(harness);
    const stream = newStream(frontend, worker);
    stream.sender.sendData(bytesOf("t0"));
    await harness.until(() => stream.consumer.items.length === 1, "the first item");
    await harness.linger(); // credit has gone back: both directions are up
    harness.partition(frontend, worker);
    await harness.until(() => stream.consumer.ends.length > 0, "the end");
    assertEquals(stream.consumer.ends.map((end) => end.kind), ["timeout"]);
    await assertQuiet(harness, frontend);
  },
  "lets streams finish while a node drains": async (harness) => {
    for (const which of ["frontend", "worker", "both"] as const) {
      const [frontend, worker] = await pair(harness, 4);
      const streams = Array.from({ length: 10 }, () => newStream(frontend, worker));
      for (const { sender } of streams) sender.sendData(bytesOf("head"));
      await harness.until(() => streams.every(({ consumer }) => consumer.items.length === 1), "all to begin");
      if (which !== "worker") frontend.messenger.beginDrain();
      if (which !== "frontend") worker.messenger.beginDrain();
      for (const stream of streams) produce(stream, 100);
      const cancelled = newStream(frontend, worker);
      cancelled.sender.sendData(bytesOf("x"));
      cancelled.anchor.cancel("gone");
      await ended(harness, streams);
      for (const { consumer } of streams) assertEquals(consumer.items, ["head", ...numberedItems(100)]);
      await assertQuiet(harness, frontend, worker);
    }
  },
  "ends everything when it closes": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const streams = Array.from({ length: 10 }, () => newStream(frontend, worker));
    for (const { sender } of streams) sender.sendData(bytesOf("a"));
    await harness.until(() => streams.every(({ consumer }) => consumer.items.length === 1), "all to begin");
    frontend.plane.close();
    assert(streams.every(({ consumer }) => consumer.ends.length === 1));
    worker.plane.close();
    assert(streams.every(({ sender }) => sender.ended !== null));
    assertEquals(worker.plane.open(streams[0]!.anchor.ticket).ended, "closed");
    await assertQuiet(harness, frontend, worker);
  },
};
