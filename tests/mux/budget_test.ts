import { assert, assertEquals } from "@std/assert";
import { FakeWorld } from "../support/mux_world.ts";
import { id, record, SoloMux } from "../support/solo_mux.ts";

Deno.test("Mux withholds grants over the peer's budget from streams that hold, not from streams that drained", () => {
  const solo = new SoloMux({ slotByteBudget: 4_096, peerByteBudget: 4_096, initialCredit: 8 });
  const [slow, fast] = [solo.register(), solo.register()];
  slow.anchor.pause();
  solo.receive([record.open(id(0), slow.anchor), record.open(id(1), fast.anchor)]);
  solo.receive([1, 2, 3, 4].map((seq) => record.item(id(0), seq, new Uint8Array(1_100))));
  assertEquals(solo.mux.bytesHeld, 4_400);
  for (let seq = 1; seq <= 20; seq++) {
    solo.receive([record.item(id(1), seq, "x")]);
    assertEquals(solo.take(5), ["credit 1.0 +1"], `record ${seq}`);
  }
  slow.consumer.take(1);
  assertEquals(solo.take(5), ["credit 0.0 +1"]);
});

Deno.test("Mux gives a withheld grant when the peer's budget is free again", () => {
  const solo = new SoloMux({ slotByteBudget: 2_048, peerByteBudget: 2_048, initialCredit: 8 });
  const [one, two] = [solo.register(), solo.register()];
  for (const { anchor } of [one, two]) anchor.pause();
  solo.receive([record.open(id(0), one.anchor), record.open(id(1), two.anchor)]);
  solo.receive([1, 2].map((seq) => record.item(id(0), seq, new Uint8Array(1_500))));
  solo.receive([1, 2].map((seq) => record.item(id(1), seq, new Uint8Array(1_500))));
  one.consumer.take(1);
  assertEquals(solo.take(500), [], "withheld, not refused");
  assertEquals(one.consumer.ends, []);
  two.consumer.take(2);
  assertEquals(solo.take(5), ["credit 1.0 +2"]);
  one.consumer.take(1);
  assertEquals(solo.take(5), ["credit 0.0 +2"]);
  assertEquals(solo.mux.bytesHeld, 0);
});

Deno.test("Mux un-parks the sender of a quiet peer within the floor and the linger", () => {
  const world = new FakeWorld({ initialCredit: 2 }, { delayMs: 0 });
  const { sender, consumer, anchor } = world.stream();
  anchor.pause();
  sender.sendData(world.bytes("a"));
  sender.sendData(world.bytes("b"));
  sender.sendData(world.bytes("c"));
  world.clock.advance(500);
  let woken = -1;
  sender.onWritable = () => woken = world.clock.now();
  const received = world.front.mux.stats.batchesReceived;
  const drained = world.clock.now();
  consumer.take(2);
  world.clock.advance(3);
  assert(woken >= 0 && woken - drained <= 3, `woken after ${woken - drained} ms`);
  assertEquals(
    world.front.mux.stats.batchesReceived - received,
    1,
    "nothing came in but what the grant let go",
  );
  assertEquals(consumer.items, ["a", "b"]);
});

Deno.test("Mux spaces visits by the floor: 1,000 drains through a window of 8 take seconds, not milliseconds", () => {
  const world = new FakeWorld({ initialCredit: 8 }, { delayMs: 0 });
  const { sender, consumer, anchor } = world.stream();
  // Every item is drained by itself, as by a socket that takes one event at a time.
  consumer.onData = () => {
    consumer.items.push("");
    anchor.pause();
    world.clock.setTimer(() => anchor.resume(), 0);
  };
  let sent = 0;
  const pump = () => {
    while (sent < 8_000) {
      sent++;
      if (!sender.sendData(world.bytes("x"))) return;
    }
    sender.finalize();
  };
  sender.onWritable = pump;
  pump();
  const started = world.clock.now();
  while (consumer.ends.length === 0) world.clock.advance(10);
  const ms = world.clock.now() - started;
  const replies = world.front.mux.stats.creditReplies;
  assertEquals(consumer.items.length, 8_000);
  assert(ms >= 1_990 && ms < 4_000, `${ms} ms`);
  assert(replies >= 900 && replies <= ms / 2 + 1, `${replies} replies in ${ms} ms`);
});

Deno.test("Mux gives every grant to 10,000 live slots of one peer and refuses no control", () => {
  const solo = new SoloMux({ initialCredit: 4 });
  const streams = Array.from({ length: 10_000 }, () => solo.register());
  const opens = streams.map(({ anchor }, i) => record.open(id(i), anchor));
  solo.receive(opens);
  for (const { anchor } of streams) anchor.pause();
  for (let round = 1; round <= 2; round++) {
    solo.receive(streams.map((_, i) => record.item(id(i), round, "x")));
  }
  // Parked: everything owed has to be kept as state.
  solo.link.holding = true;
  solo.receive([record.openRaw(60_000 << 8, 1n, 1n)]);
  solo.take();
  for (const { anchor } of streams) anchor.resume();
  for (const { anchor } of streams.slice(0, 100)) anchor.cancel("gone");
  solo.link.holding = false;
  solo.link.admit();
  const sent = solo.take(10);
  assertEquals(sent.filter((line) => line.startsWith("close")).length, 100);
  assertEquals(sent.filter((line) => /^credit \d+\.0 \+2$/.test(line)).length, 9_900);
  assertEquals([solo.mux.stats.controlRefused, solo.mux.stats.creditReplies], [0, 9_900]);
  assertEquals(solo.mux.bytesHeld, 0);
});

Deno.test("Mux works under the smallest batch cap there is", () => {
  const world = new FakeWorld({ maxBatchBytes: 29, initialCredit: 2 });
  const { sender, consumer } = world.stream();
  for (let i = 0; i < 20; i++) sender.sendData(world.bytes(`item ${i}`));
  sender.finalize();
  world.clock.advance(500);
  assertEquals(consumer.items, Array.from({ length: 20 }, (_, i) => `item ${i}`));
  assertEquals(consumer.ends, [{ kind: "finalized" }]);
  world.assertQuiet();
});

Deno.test("Mux keeps no more than the window for a consumer that does not read", () => {
  const world = new FakeWorld({ initialCredit: 32 });
  const { sender, anchor, consumer } = world.stream();
  anchor.pause();
  for (let i = 0; i < 1_000; i++) sender.sendData(new Uint8Array(100));
  world.clock.advance(1_000);
  assertEquals([anchor.buffered, world.front.mux.bytesHeld], [32, 3_200]);
  assertEquals(world.worker.mux.stats.withheldRecords, 968);
  anchor.resume();
  sender.finalize();
  world.clock.advance(1_000);
  assertEquals(consumer.items.length, 1_000);
  world.assertQuiet();
});

Deno.test("Mux shows 511 streams no difference when one client among them is blocked, and still stops that one", () => {
  const arrivals = (blocked: boolean) => {
    const world = new FakeWorld({ lanes: 4 });
    const times: number[] = [];
    const streams = Array.from({ length: 512 }, () => world.stream());
    for (const { consumer } of streams.slice(1)) consumer.onData = () => void times.push(world.clock.now());
    const first = streams[0]!;
    if (blocked) first.anchor.pause();
    for (let step = 0; step < 100; step++) {
      for (const { sender } of streams) sender.sendData(world.bytes("a token of some length"));
      world.clock.advance(5);
    }
    first.anchor.cancel("gone");
    world.clock.advance(1);
    assertEquals(first.sender.ended === null, false);
    return times;
  };
  assertEquals(arrivals(true), arrivals(false));
});
