import { assertEquals } from "@std/assert";
import type { FlushPolicy } from "../../src/mux/options.ts";
import { FINALIZED } from "../../src/mux/wire/stream_frame.ts";
import { id, record, SoloMux, text } from "../support/solo_mux.ts";

const MANUAL: FlushPolicy = { kind: "manual" };
const LINGER: FlushPolicy = { kind: "auto", onAdmission: false, maxLingerMs: 5 };

/** A mux with one stream whose open and first record have gone. */
function started(flush: FlushPolicy, options = {}) {
  const solo = new SoloMux({ flush, ...options });
  const sender = solo.open({ initialCredit: 1_000 });
  sender.sendData(text("first"));
  assertEquals(solo.take(), ["open 0.0 #0", "data 0.0 #1 first"]);
  return { solo, sender };
}

Deno.test("Mux.flushBatch writes one batch with every staged record", () => {
  const { solo, sender } = started(MANUAL);
  for (let i = 0; i < 40; i++) sender.sendData(text(`${i}`));
  assertEquals(solo.take(60), []);
  assertEquals(solo.mux.stats.stagedRecords, 40);
  solo.mux.flushBatch();
  assertEquals(solo.takeBatches().map((batch) => batch.length), [40]);
  assertEquals(solo.mux.stats.stagedRecords, 0);
});

Deno.test("Mux.flushBatch reaches every peer and lane", () => {
  const solo = new SoloMux({ flush: MANUAL, lanes: 2 });
  const senders = [solo.open({ lanes: 2 }), solo.open({ lanes: 2 }), solo.open({ lanes: 2 }, "other")];
  for (const sender of senders) sender.sendData(text("first"));
  solo.take();
  for (const sender of senders) sender.sendData(text("x"));
  solo.mux.flushBatch();
  const went = solo.link.sent.map(({ peer, lane, records }) => [peer, lane, records.length]);
  assertEquals(went, [["peer", 0, 1], ["peer", 1, 1], ["other", 0, 1]]);
});

Deno.test("Mux has no timer behind a manual flush", () => {
  const { solo, sender } = started(MANUAL);
  sender.sendData(text("x"));
  assertEquals(solo.take(1_500), []);
  assertEquals(sender.ended, null);
});

Deno.test("Mux.flushBatch writes nothing when nothing is staged", () => {
  const { solo } = started(MANUAL);
  solo.mux.flushBatch();
  new SoloMux().mux.flushBatch();
  assertEquals(solo.take(10), []);
});

Deno.test("Mux moves grants, rejections, opens and terminals under a manual flush", () => {
  const { solo, sender } = started(MANUAL);
  const { anchor } = solo.register();
  solo.receive([record.open(id(0), anchor), record.item(id(0), 1, "a")]);
  assertEquals(solo.take(5), ["credit 0.0 +1"]);
  solo.receive([record.openRaw(id(7), 99n, 1n)]);
  assertEquals(solo.take(), ["close 7.0 #0 reason 2"]);
  solo.open();
  assertEquals(solo.take(), ["open 1.0 #0"]);
  sender.finalize();
  assertEquals(solo.take(), ["data 0.0 #2 <finalized>", "close 0.0 #3 reason 0"]);
});

Deno.test("Mux splits batches at the byte clamp under a manual flush", () => {
  const { solo, sender } = started(MANUAL, { maxBatchBytes: 300 });
  for (let i = 0; i < 20; i++) sender.sendData(new Uint8Array(40));
  solo.mux.flushBatch();
  const sizes = solo.takeBatches().map((batch) => batch.length);
  assertEquals([sizes.length > 3, sizes.reduce((sum, size) => sum + size)], [true, 20]);
});

Deno.test("Mux writes on admission at the end of a wake by default", () => {
  const { solo, sender } = started({ kind: "auto", onAdmission: true, maxLingerMs: null });
  sender.sendData(text("a"));
  sender.sendData(text("b"));
  assertEquals(solo.link.sent.length, 0);
  assertEquals(solo.takeBatches(), [["data 0.0 #2 a", "data 0.0 #3 b"]]);
});

Deno.test("Mux writes without a kick once the linger of the oldest record has passed", () => {
  const { solo, sender } = started(LINGER);
  sender.sendData(text("a"));
  assertEquals(solo.take(3), []);
  sender.sendData(text("b"));
  assertEquals(solo.take(1.9), []);
  assertEquals(solo.take(0.2), ["data 0.0 #2 a", "data 0.0 #3 b"]);
});

Deno.test("Mux.flushBatch beats a linger that has not elapsed", () => {
  const { solo, sender } = started(LINGER);
  sender.sendData(text("a"));
  solo.mux.flushBatch();
  assertEquals(solo.take(), ["data 0.0 #2 a"]);
  assertEquals(solo.take(20), []);
});

Deno.test("Mux.flushBatch during a park neither sends twice nor reorders", () => {
  const { solo, sender } = started(MANUAL);
  solo.link.holding = true;
  sender.sendData(text("a"));
  solo.mux.flushBatch();
  assertEquals(solo.take(), ["data 0.0 #2 a"]);
  for (const item of ["b", "c"]) {
    sender.sendData(text(item));
    solo.mux.flushBatch();
  }
  assertEquals(solo.take(10), []);
  solo.link.holding = false;
  solo.link.admit();
  assertEquals(solo.takeBatches(10), [["data 0.0 #3 b", "data 0.0 #4 c"]]);
});

Deno.test("Mux covers records that found no room by a kick made while the lane was parked", () => {
  const { solo, sender } = started(MANUAL, { maxBatchBytes: 100 });
  solo.link.holding = true;
  sender.sendData(text("a"));
  solo.mux.flushBatch();
  for (const item of ["b", "c", "d", "e", "f"]) sender.sendData(text(item.repeat(20)));
  solo.mux.flushBatch();
  solo.link.sent.length = 0;
  solo.link.holding = false;
  solo.link.admit();
  assertEquals(solo.take().map((line) => line.slice(-1)), ["b", "c", "d", "e", "f"]);
});

Deno.test("Mux answers one read of many batches by one reply", () => {
  const solo = new SoloMux();
  const { anchor } = solo.register();
  solo.receive([record.open(id(0), anchor)]);
  for (let seq = 1; seq <= 20; seq++) solo.receive([record.item(id(0), seq, "x")]);
  assertEquals(solo.takeBatches(10), [["credit 0.0 +20"]]);
});

Deno.test("Mux lets grants ride with data that goes out sooner", () => {
  const { solo, sender } = started({ kind: "auto", onAdmission: true, maxLingerMs: null });
  const { anchor } = solo.register();
  solo.receive([record.open(id(0), anchor), record.item(id(0), 1, "x")]);
  sender.sendData(text("a"));
  assertEquals(solo.takeBatches(10), [["credit 0.0 +1", "data 0.0 #2 a"]]);
});

Deno.test("Mux does not delay a close by the reply linger, nor a terminal by anything", () => {
  const solo = new SoloMux({ replyLingerMs: 100, visitFloorMs: 100 });
  const { anchor, consumer } = solo.register();
  solo.receive([record.open(id(0), anchor), record.item(id(0), 1, "x")]);
  anchor.cancel("gone");
  assertEquals(solo.take(), ["close 0.0 #0 reason 2"]);
  solo.receive([record.frame(id(0), 2, FINALIZED)]);
  assertEquals(consumer.ends, []);
});
