import { assertEquals } from "@std/assert";
import { DETACHED, FINALIZED } from "../../src/mux/wire/stream_frame.ts";
import { FakeWorld } from "../support/mux_world.ts";
import { id, record, SoloMux, text } from "../support/solo_mux.ts";

const S = id(0);

Deno.test("Mux carries a stream that attaches first, and what was sent before the answer", () => {
  const world = new FakeWorld({ streamSetup: "attach" });
  const { sender, consumer, anchor } = world.stream();
  assertEquals(anchor.ticket.routingSessionId, 0n);
  assertEquals([sender.sendData(world.bytes("early")), sender.writable], [false, false]);
  let writable = 0;
  sender.onWritable = () => writable++;
  world.clock.advance(5);
  assertEquals([consumer.items, writable], [["early"], 1]);
  sender.sendData(world.bytes("later"));
  sender.finalize();
  world.clock.advance(10);
  assertEquals([consumer.items, consumer.ends], [["early", "later"], [{ kind: "finalized" }]]);
  world.assertQuiet();
});

Deno.test("Mux finishes a stream that was finished before its attach was answered", () => {
  const world = new FakeWorld({ streamSetup: "attach" });
  const { sender, consumer } = world.stream();
  sender.sendData(world.bytes("a"));
  sender.finalize();
  world.clock.advance(10);
  assertEquals([consumer.items, consumer.ends, sender.ended], [["a"], [{ kind: "finalized" }], "finished"]);
  world.assertQuiet();
});

Deno.test("AnchorRegistry attaches an anchor once, to its own producer", () => {
  const solo = new SoloMux();
  const { anchor } = solo.register("peer");
  const localId = BigInt(anchor.localId);
  assertEquals(solo.mux.anchors.attach(localId, "thief", 1n), { refused: `anchor ${localId} not found` });
  assertEquals(solo.mux.anchors.attach(99n, "peer", 1n), { refused: "anchor 99 not found" });
  assertEquals(solo.mux.anchors.attach(localId, "peer", 1n), anchor);
  assertEquals(solo.mux.anchors.attach(localId, "peer", 2n), {
    refused: `anchor ${localId} already attached`,
  });
});

Deno.test("Mux ends the sender of a refused attach, and of one without a window", async () => {
  const solo = new SoloMux();
  const refused = solo.open({ routingSessionId: 0n });
  await solo.clock.settle();
  assertEquals(refused.ended, "rejected");
  solo.link.grant = { routingSessionId: 5n, initialCredit: 0, slotByteBudget: 0 };
  const windowless = solo.open({ routingSessionId: 0n });
  await solo.clock.settle();
  assertEquals([windowless.ended, solo.mux.timers.entries], ["rejected", 0]);
});

Deno.test("Mux stops a sender that attached by its own stream id, before and after it has opened", () => {
  const world = new FakeWorld({ streamSetup: "attach" });
  const early = world.stream();
  world.clock.advance(0.11); // attached, not opened yet
  early.anchor.cancel("gone");
  const late = world.stream();
  world.clock.advance(5);
  late.anchor.cancel("gone");
  world.clock.advance(5);
  assertEquals([early, late].map(({ sender }) => sender.ended === null), [false, false]);
  world.assertQuiet();
});

Deno.test("Mux makes an attach to a cancelled stream fail", () => {
  const world = new FakeWorld({ streamSetup: "attach" });
  const { sender, anchor } = world.stream();
  anchor.cancel("gone");
  world.clock.advance(5);
  assertEquals(sender.ended, "rejected");
  world.assertQuiet();
});

/** A stream whose first sender detached, with `waiting` items of its left. */
function detached(waiting: number) {
  const solo = new SoloMux({ initialCredit: 4 });
  const { anchor, consumer } = solo.register();
  solo.receive([record.open(S, anchor)]);
  if (waiting > 0) anchor.pause();
  for (let i = 0; i < waiting; i++) solo.receive([record.item(S, i + 1, `old${i}`)]);
  solo.receive([record.frame(S, waiting + 1, DETACHED), record.close(S, waiting + 2, 0)]);
  solo.take(5);
  return { solo, anchor, consumer };
}

Deno.test("Mux lets another sender take over a stream whose sender detached", () => {
  const { solo, anchor, consumer } = detached(0);
  assertEquals([anchor.slot, consumer.ends, solo.mux.stats.liveIngressSlots], [null, [], 0]);
  solo.receive([record.open(id(0, 1), anchor), record.item(id(0, 1), 1, "new")]);
  solo.receive([record.frame(id(0, 1), 2, FINALIZED), record.close(id(0, 1), 3, 0)]);
  assertEquals([consumer.items, consumer.ends], [["new"], [{ kind: "finalized" }]]);
});

Deno.test("Mux keeps order over a re-attach and makes no credit from what the first sender left", () => {
  const { solo, anchor, consumer } = detached(3);
  const next = id(0, 1);
  solo.receive([record.open(next, anchor), record.item(next, 1, "new0"), record.item(next, 2, "new1")]);
  consumer.take(3);
  assertEquals(consumer.items, ["old0", "old1", "old2"]);
  assertEquals([solo.take(5), anchor.slot!.outstanding], [[], 2]);
  consumer.take(2);
  assertEquals([solo.take(5), solo.mux.bytesHeld], [["credit 0.1 +2"], 0]);
  assertEquals(consumer.items.slice(3), ["new0", "new1"]);
});

Deno.test("Mux gives a detached stream up when nobody takes it over", () => {
  const { solo, consumer, anchor } = detached(1);
  solo.clock.advance(61_000);
  assertEquals(consumer.ends, [], "an item still waits");
  // Its end is known, so nobody may take it over any more.
  solo.receive([record.open(id(0, 1), anchor)]);
  assertEquals(anchor.slot, null);
  anchor.resume();
  assertEquals([consumer.items, consumer.ends.map((end) => end.kind)], [["old0"], ["timeout"]]);
  assertEquals(solo.mux.timers.entries, 0);
});

Deno.test("Mux survives five detaches of one stream", () => {
  const solo = new SoloMux();
  const { anchor, consumer } = solo.register();
  for (let n = 0; n < 5; n++) {
    solo.receive([record.open(id(0, n), anchor), record.item(id(0, n), 1, `${n}`)]);
    solo.receive([record.frame(id(0, n), 2, DETACHED), record.close(id(0, n), 3, 0)]);
  }
  assertEquals([consumer.items, consumer.ends], [["0", "1", "2", "3", "4"], []]);
  anchor.cancel("enough");
  solo.take(1_000);
  assertEquals([solo.mux.stats.liveAnchors, solo.mux.timers.entries], [0, 0]);
});

Deno.test("Mux gives up a stream that no sender opens within the accept window, and tells its producer", () => {
  const solo = new SoloMux({ acceptTimeoutMs: 1_000 });
  const { anchor, consumer } = solo.register();
  solo.clock.advance(999);
  assertEquals(consumer.ends, []);
  solo.clock.advance(2);
  assertEquals(consumer.ends.map((end) => end.kind), ["timeout"]);
  assertEquals(solo.link.stops, [anchor.ticket.handle]);
  solo.receive([record.open(S, anchor)]);
  assertEquals(solo.take(), ["close 0.0 #0 reason 2"]);
});

Deno.test("Mux lets 50 cancels of one stream act once", () => {
  const world = new FakeWorld();
  const { sender, anchor, consumer } = world.stream();
  const ends: string[] = [];
  sender.onEnded = (why) => ends.push(why);
  sender.sendData(text("a"));
  world.clock.advance(5);
  for (let i = 0; i < 50; i++) anchor.cancel("gone");
  world.clock.advance(5);
  assertEquals([ends.length, consumer.ends], [1, []]);
  world.assertQuiet();
});

Deno.test("Mux ignores a stop or cancel of another peer, or for another session", () => {
  const solo = new SoloMux();
  const sender = solo.open({ handle: { hi: 9n, lo: 4n }, routingSessionId: 6n });
  solo.mux.handleStop("thief", { hi: 9n, lo: 4n }, 6n);
  solo.mux.handleStop("peer", { hi: 9n, lo: 4n }, 7n);
  solo.mux.handleCancel("thief", sender.streamId);
  assertEquals(sender.ended, null);
  solo.mux.handleStop("peer", { hi: 9n, lo: 4n }, 6n);
  solo.mux.handleStop("peer", { hi: 9n, lo: 4n }, 6n);
  assertEquals(sender.ended, "stopped");
});

Deno.test("Mux ends a stream when it is ended from outside, and tells its sender", () => {
  const solo = new SoloMux();
  const { anchor, consumer } = solo.register();
  solo.receive([record.open(S, anchor)]);
  solo.mux.anchors.get(BigInt(anchor.localId))!.end({ kind: "dropped", reason: "asked" });
  solo.receive([record.item(S, 1, "late")]);
  assertEquals([consumer.items, consumer.ends.length], [[], 1]);
  assertEquals(solo.take(), ["close 0.0 #0 reason 2"]);
});
