import { assert, assertEquals } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { id, record, SoloMux, text } from "../support/solo_mux.ts";

const LOST = new TokenplaneError("connection", "Connection closed");

Deno.test("Batcher puts records of several streams in one batch", () => {
  const solo = new SoloMux();
  const [a, b] = [solo.open(), solo.open()];
  a.sendData(text("a1"));
  b.sendData(text("b1"));
  a.sendData(text("a2"));
  assertEquals(solo.takeBatches(), [[
    "open 0.0 #0",
    "open 1.0 #0",
    "data 0.0 #1 a1",
    "data 1.0 #1 b1",
    "data 0.0 #2 a2",
  ]]);
  assertEquals(solo.mux.stats.stagedRecords, 0);
});

Deno.test("Batcher keeps every batch under the configured cap and under the eager budget", () => {
  for (const [configured, eager, cap] of [[300, 262_109, 300], [61_440, 200, 200]] as const) {
    const solo = new SoloMux({ maxBatchBytes: configured });
    solo.link.eager = eager;
    const sender = solo.open({ initialCredit: 1_000 });
    for (let i = 0; i < 100; i++) sender.sendData(new Uint8Array(i % 50));
    sender.finalize();
    solo.clock.advance(0);
    assert(solo.link.sent.length > 10);
    assertEquals(solo.link.sent.filter(({ bytes }) => bytes.length > cap).length, 0);
    assertEquals(solo.link.sent.map(({ seq }) => seq), solo.link.sent.map((_, i) => i));
  }
});

Deno.test("Batcher starts a fresh batch for a terminal that has no room for its close", () => {
  // Header 16, open 29, Finalized 13 + 10, close 14: the pair just misses 81 bytes.
  for (const [cap, batches] of [[82, 1], [81, 2]] as const) {
    const solo = new SoloMux({ maxBatchBytes: cap });
    solo.open().finalize();
    const sent = solo.takeBatches();
    assertEquals(sent.length, batches);
    assertEquals(sent.at(-1)!.slice(-2), ["data 0.0 #1 <finalized>", "close 0.0 #2 reason 0"]);
  }
});

Deno.test("Batcher keeps an open behind the close of the stream whose slot it takes over", () => {
  const solo = new SoloMux();
  const first = solo.open();
  solo.take();
  first.sendData(text("a"));
  first.finalize();
  solo.open().sendData(text("b"));
  assertEquals(solo.takeBatches(), [[
    "data 0.0 #1 a",
    "data 0.0 #2 <finalized>",
    "close 0.0 #3 reason 0",
    "open 0.1 #0",
    "data 0.1 #1 b",
  ]]);
});

Deno.test("Batcher spends the reserve for a terminal when data credit is gone", () => {
  const solo = new SoloMux();
  const sender = solo.open({ initialCredit: 1 });
  assert(sender.sendData(text("a")));
  sender.finalize();
  assertEquals(solo.take().slice(2), ["data 0.0 #2 <finalized>", "close 0.0 #3 reason 0"]);
  assertEquals([sender.ended, solo.mux.stats.liveEgressSlots, solo.mux.timers.entries], ["finished", 0, 0]);
});

Deno.test("Batcher lets a terminal wait behind starved predecessors and releases the head of the queue in order", () => {
  const solo = new SoloMux();
  const sender = solo.open({ initialCredit: 1 });
  for (const item of ["a", "b", "c", "d"]) sender.sendData(text(item));
  sender.finalize();
  assertEquals(solo.take(), ["open 0.0 #0", "data 0.0 #1 a"]);
  assertEquals([solo.mux.stats.creditExhausted, solo.mux.stats.withheldRecords], [1, 3]);
  solo.receive([record.credit(id(0), 2)]);
  assertEquals(solo.take(), ["data 0.0 #2 b", "data 0.0 #3 c"]);
  solo.receive([record.credit(id(0), 1)]);
  assertEquals(solo.take(), ["data 0.0 #4 d", "data 0.0 #5 <finalized>", "close 0.0 #6 reason 0"]);
  assertEquals(solo.mux.stats.withheldRecords, 0);
});

Deno.test("Batcher sends a departed producer's withheld records before its close", () => {
  const solo = new SoloMux();
  const sender = solo.open({ initialCredit: 1 });
  sender.sendData(text("a"));
  sender.sendData(text("b"));
  sender.drop();
  assertEquals(solo.take(), ["open 0.0 #0", "data 0.0 #1 a"]);
  solo.receive([record.credit(id(0), 5)]);
  assertEquals(solo.take(), ["data 0.0 #2 b", "close 0.0 #3 reason 1"]);
  assertEquals(sender.ended, "closed");
});

Deno.test("Batcher withholds a starved stream while the others keep flowing, and starvation is no fault", () => {
  const solo = new SoloMux();
  const starved = solo.open({ initialCredit: 2 });
  const other = solo.open({ initialCredit: 100 });
  for (let i = 0; i < 50; i++) {
    starved.sendData(text(`s${i}`));
    other.sendData(text(`o${i}`));
  }
  const sent = solo.take();
  assertEquals(sent.filter((line) => line.startsWith("data 1.0")).length, 50);
  assertEquals(sent.filter((line) => line.startsWith("data 0.0")).length, 2);
  assertEquals([starved.ended, solo.mux.stats.creditExhausted], [null, 1]);
});

Deno.test("Batcher ends a stream whose withheld records overflow its budget, and no other", () => {
  const solo = new SoloMux({ slotByteBudget: 1_024 });
  const starved = solo.open({ initialCredit: 1 });
  const other = solo.open();
  const why: string[] = [];
  starved.onEnded = (end) => why.push(end);
  starved.sendData(text("a"));
  for (let i = 0; i < 3; i++) starved.sendData(new Uint8Array(500));
  other.sendData(text("b"));
  assertEquals(solo.take().slice(2), ["data 0.0 #1 a", "close 0.0 #2 reason 1", "data 1.0 #1 b"]);
  assertEquals([starved.ended, why, other.ended], ["overflow", ["overflow"], null]);
  assertEquals([solo.mux.stats.dropped.withheld_overflow, solo.mux.stats.withheldRecords], [3, 0]);
});

Deno.test("Batcher tells the producer of an overflow that had to wait for room", () => {
  const solo = new SoloMux({ slotByteBudget: 1_024, maxBatchBytes: 64 });
  const sender = solo.open({ initialCredit: 2 });
  const why: string[] = [];
  sender.onEnded = (end) => why.push(end);
  solo.take();
  solo.link.holding = true;
  sender.sendData(text("a"));
  solo.clock.advance(0); // parked
  sender.sendData(new Uint8Array(24));
  for (let i = 0; i < 3; i++) sender.sendData(new Uint8Array(500));
  assertEquals([sender.ended, sender.sendData(text("z"))], [null, false]);
  solo.link.holding = false;
  solo.link.admit();
  assertEquals([sender.ended, why], ["overflow", ["overflow"]]);
  assertEquals(solo.take().at(-1), "close 0.0 #3 reason 1");
});

Deno.test("Batcher accepts one withheld record of any size", () => {
  const solo = new SoloMux({ slotByteBudget: 1_024 });
  const sender = solo.open({ initialCredit: 1 });
  sender.sendData(text("a"));
  sender.sendData(new Uint8Array(5_000));
  assertEquals([sender.ended, sender.withheldRecords], [null, 1]);
});

Deno.test("Batcher bounds what waits by its own budget, whatever the ticket allows or leaves open", () => {
  for (const slotByteBudget of [2 ** 40, 0]) {
    const solo = new SoloMux({ slotByteBudget: 1_024 });
    const sender = solo.open({ initialCredit: 1, slotByteBudget });
    for (let i = 0; i < 5; i++) sender.sendData(new Uint8Array(500));
    assertEquals(sender.ended, "overflow", `${slotByteBudget}`);
  }
});

Deno.test("Batcher sends an oversized record alone and fences only its stream", () => {
  const solo = new SoloMux({ maxBatchBytes: 200 });
  const big = solo.open({ initialCredit: 10 });
  const other = solo.open({ initialCredit: 10 });
  solo.take();
  other.sendData(text("before"));
  solo.link.holding = true;
  big.sendData(new Uint8Array(500));
  // What was staged goes first, and parks the lane, so the large one waits in its stream.
  assertEquals(solo.takeBatches(), [["data 1.0 #1 before"]]);
  assertEquals(big.withheldRecords, 1);
  solo.link.admit();
  assertEquals(solo.takeBatches(), [["data 0.0 #1 (500)"]]);
  big.sendData(text("after"));
  other.sendData(text("meanwhile"));
  assertEquals([solo.takeBatches(), big.withheldRecords], [[["data 1.0 #2 meanwhile"]], 1]);
  solo.link.holding = false;
  solo.link.admit();
  solo.link.admit();
  assertEquals(solo.takeBatches(), [["data 0.0 #2 after"]]);
  assertEquals([big.credit, solo.mux.stats.singletons], [8, 1]);
});

for (const code of ["overloaded", "timeout"] as const) {
  Deno.test(`Batcher ends only the stream whose oversized record could not be staged (${code})`, () => {
    const solo = new SoloMux({ maxBatchBytes: 200 });
    const big = solo.open();
    const other = solo.open();
    solo.take();
    solo.link.holding = true;
    big.sendData(new Uint8Array(500));
    solo.take();
    big.sendData(text("after"));
    solo.link.holding = false;
    solo.link.admit(new TokenplaneError(code, "Cannot stage"));
    // The close has the sequence of the record that is missing: with any other the receiver would wait for that.
    assertEquals(solo.takeBatches(), [["close 0.0 #1 reason 1"]]);
    assertEquals([big.ended, other.ended, solo.mux.stats.epochDeaths], ["overflow", null, 0]);
  });
}

Deno.test("Batcher counts a singleton that fails after its stream has closed, and goes on", () => {
  const solo = new SoloMux({ maxBatchBytes: 200 });
  const big = solo.open();
  const other = solo.open();
  solo.take();
  solo.link.holding = true;
  big.sendData(new Uint8Array(500));
  solo.receive([record.close(id(0), 0, 2)]);
  assertEquals(big.ended, "rejected");
  solo.link.holding = false;
  solo.link.admit(LOST);
  assertEquals([other.ended, solo.mux.stats.dropped.stale_singleton, solo.mux.stats.epochDeaths], [
    null,
    1,
    0,
  ]);
});

Deno.test("Batcher fails every live stream once when an admission fails, and starts a new epoch", () => {
  const solo = new SoloMux();
  const streams = [solo.open(), solo.open(), solo.open()];
  const ends: string[] = [];
  for (const stream of streams) stream.onEnded = (why) => ends.push(why);
  solo.link.holding = true;
  solo.clock.advance(0);
  const epoch = solo.link.sent[0]!.epoch;
  streams[0]!.sendData(text("staged"));
  solo.link.holding = false;
  solo.link.admit(LOST);
  solo.mux.handleLaneLost("peer", 0, "lost"); // the transport says it as well
  assertEquals([ends, solo.mux.stats.epochDeaths], [["peer_lost", "peer_lost", "peer_lost"], 1]);
  assertEquals([solo.mux.stats.stagedRecords, solo.mux.stats.liveEgressSlots, solo.mux.timers.entries], [
    0,
    0,
    0,
  ]);
  solo.link.sent.length = 0;
  solo.open().finalize();
  solo.clock.advance(0);
  const [batch] = solo.link.sent;
  assertEquals([batch!.epoch > epoch, batch!.seq, batch!.records[0]], [true, 0, "open 2.1 #0"]);
});

Deno.test("Batcher ignores an admission of an epoch that has died", () => {
  for (const late of [null, LOST]) {
    const solo = new SoloMux();
    solo.open();
    solo.link.holding = true;
    solo.clock.advance(0);
    solo.mux.handleLaneLost("peer", 0, "lost");
    const next = solo.open();
    solo.clock.advance(0); // parked anew
    solo.link.admit(late);
    assertEquals(next.ended, null);
    next.sendData(text("a"));
    solo.link.sent.length = 0;
    assertEquals(solo.take(5), [], "still parked");
    solo.link.admit();
    assertEquals(solo.take(), ["data 0.1 #1 a"]);
  }
});

Deno.test("Batcher ends streams that wait for a slot when the lane dies", () => {
  const solo = new SoloMux({ maxBatchBytes: 64 });
  solo.open();
  solo.link.holding = true;
  solo.clock.advance(0);
  const waiting = [solo.open(), solo.open(), solo.open()];
  assertEquals(
    waiting.map((stream) => stream.slot),
    [id(1), -1, -1],
  );
  solo.mux.handleLaneLost("peer", 0, "lost");
  assertEquals(waiting.map((stream) => stream.ended), ["peer_lost", "peer_lost", "peer_lost"]);
  assertEquals(solo.mux.timers.entries, 0);
});

Deno.test("Batcher opens what waited for a slot once there is room, and sends what they have gathered", () => {
  const solo = new SoloMux({ maxBatchBytes: 64 });
  solo.open();
  solo.link.holding = true;
  solo.clock.advance(0);
  const waiting = [solo.open(), solo.open(), solo.open()];
  for (const [i, stream] of waiting.entries()) {
    assertEquals(stream.sendData(text(`w${i}`)), false);
    stream.finalize();
  }
  solo.link.sent.length = 0;
  solo.link.holding = false;
  solo.link.admit();
  const sent = solo.take();
  for (let i = 0; i < 3; i++) {
    // A slot that has been given back may serve the next one, at another generation.
    const at = sent.indexOf(sent.find((line) => line.endsWith(` w${i}`))!);
    const name = sent[at]!.split(" ")[1];
    assertEquals(sent.filter((line) => line.split(" ")[1] === name), [
      `open ${name} #0`,
      `data ${name} #1 w${i}`,
      `data ${name} #2 <finalized>`,
      `close ${name} #3 reason 0`,
    ]);
  }
  assertEquals([solo.mux.stats.liveEgressSlots, solo.mux.stats.withheldRecords], [1, 0]);
});

Deno.test("Batcher remembers a stream that waits for room once, however many grants come", () => {
  const solo = new SoloMux({ maxBatchBytes: 64 });
  const sender = solo.open({ initialCredit: 1 });
  let writable = 0;
  sender.onWritable = () => writable++;
  solo.take();
  solo.link.holding = true;
  sender.sendData(text("a"));
  solo.clock.advance(0);
  for (let i = 0; i < 3; i++) sender.sendData(new Uint8Array(24));
  for (let i = 0; i < 1_000; i++) solo.receive([record.credit(id(0), 1)]);
  solo.link.holding = false;
  solo.link.admit();
  assertEquals([writable, sender.withheldRecords], [1, 0]);
});

Deno.test("Batcher closes every producer when the mux closes", () => {
  const solo = new SoloMux();
  const streams = [solo.open(), solo.open({}, "other")];
  solo.mux.close();
  assertEquals(streams.map((stream) => stream.ended), ["closed", "closed"]);
  assertEquals([solo.mux.timers, solo.clock.pendingTimers], [{ entries: 0, timers: 0 }, 0]);
  assertEquals(solo.open().ended, "closed");
});

Deno.test("Batcher fences a stream until its open is admitted when opens are answered later", () => {
  const solo = new SoloMux({ asyncOpenAck: true });
  const sender = solo.open();
  const woken: string[] = [];
  sender.onWritable = () => woken.push("writable");
  assertEquals(sender.sendData(text("a")), false);
  solo.link.holding = true;
  assertEquals(solo.take(), ["open 0.0 #0"]);
  solo.link.holding = false;
  solo.link.admit();
  assertEquals([solo.take(), woken], [["data 0.0 #1 a"], ["writable"]]);
});

Deno.test("Batcher loses nothing when a fence is lifted in the middle of another stream's send", () => {
  const solo = new SoloMux({ asyncOpenAck: true, maxBatchBytes: 120 });
  const first = solo.open({ initialCredit: 100 });
  solo.take();
  const second = solo.open({ initialCredit: 100 });
  let n = 0;
  second.onWritable = () => {
    while (n < 20 && second.sendData(text(`s${n}`))) n++;
  };
  second.sendData(text("s-first"));
  for (let i = 0; i < 20; i++) first.sendData(text(`f${i}`));
  const sent = solo.take();
  assertEquals(sent.filter((line) => / f\d+$/.test(line)).length, 20);
  assertEquals(sent.filter((line) => / s/.test(line)).map((line) => line.split(" ")[2]), [
    ...Array.from({ length: n + 1 }, (_, i) => `#${i + 1}`),
  ]);
  assertEquals([n, solo.mux.stats.stagedRecords], [20, 0]);
});

Deno.test("Batcher survives producers whose callbacks throw, and ends their streams", () => {
  const solo = new SoloMux();
  const [bad, good] = [solo.open({ initialCredit: 1 }), solo.open({ initialCredit: 1 })];
  bad.onWritable = () => {
    throw new Error("writable");
  };
  let woken = 0;
  good.onWritable = () => woken++;
  for (const stream of [bad, good]) {
    stream.sendData(text("a"));
    stream.sendData(text("b"));
  }
  solo.receive([record.credit(id(0), 2), record.credit(id(1), 2)]);
  assertEquals([solo.errors.length, woken, bad.ended, good.ended], [1, 1, "closed", null]);
  good.onEnded = () => {
    throw new Error("ended");
  };
  const third = solo.open();
  solo.mux.handleLaneLost("peer", 0, "lost");
  assertEquals([solo.errors.length, third.ended], [2, "peer_lost"]);
});
