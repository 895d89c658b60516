import { assertEquals } from "@std/assert";
import { DROPPED, encodeTransportError, FINALIZED, HEARTBEAT } from "../../src/mux/wire/stream_frame.ts";
import { id, record, SoloMux, text } from "../support/solo_mux.ts";

const S = id(0);

function opened(options = {}) {
  const solo = new SoloMux(options);
  const { anchor, consumer } = solo.register();
  solo.receive([record.open(S, anchor)]);
  return { solo, anchor, consumer, slot: () => anchor.slot! };
}

Deno.test("Ingress claims the bind an OpenSlot names and grants no credit for it", () => {
  const { solo, anchor } = opened();
  assertEquals(anchor.slot?.id, S);
  assertEquals(solo.mux.stats.liveIngressSlots, 1);
  assertEquals(solo.take(1_000), []);
});

Deno.test("Ingress rejects an OpenSlot nobody has registered, and that slot only", () => {
  const { solo, anchor, consumer } = opened();
  solo.receive([
    record.openRaw(id(1), BigInt(anchor.localId), anchor.sessionId + 1n),
    record.openRaw(id(2), 99n, anchor.sessionId),
    record.item(S, 1, "still"),
  ]);
  assertEquals(solo.take().slice(0, 2), ["close 1.0 #0 reason 2", "close 2.0 #0 reason 2"]);
  assertEquals(consumer.items, ["still"]);
  assertEquals(solo.mux.stats.dropped.unknown_slot, 2);
});

Deno.test("Ingress rejects an OpenSlot of a peer the stream is not for", () => {
  const solo = new SoloMux();
  const { anchor } = solo.register("peer");
  solo.receive([record.open(S, anchor)], { peer: "thief" });
  assertEquals(solo.take(), ["close 0.0 #0 reason 2"]);
  assertEquals(anchor.slot, null);
  solo.receive([record.open(S, anchor)]);
  assertEquals(anchor.slot?.id, S);
});

Deno.test("Ingress lets anyone open a stream that is for anyone", () => {
  const solo = new SoloMux();
  const { anchor } = solo.register(null);
  solo.receive([record.open(S, anchor)], { peer: "someone" });
  assertEquals(anchor.slot?.id, S);
});

Deno.test("Ingress rejects a colliding OpenSlot and keeps the incumbent and the bind", () => {
  const { solo, consumer } = opened();
  const other = solo.register();
  solo.receive([record.open(id(0, 1), other.anchor), record.item(S, 1, "a")]);
  assertEquals(solo.take(), ["close 0.1 #0 reason 3", "credit 0.0 +1"]);
  assertEquals([solo.mux.stats.dropped.slot_collision, consumer.items], [1, ["a"]]);
  solo.receive([record.open(id(1), other.anchor)]);
  assertEquals(other.anchor.slot?.id, id(1));
});

Deno.test("Ingress retires the incumbent through an ordinary close when its slot is opened again", () => {
  const { solo, consumer } = opened();
  const other = solo.register();
  solo.receive([record.open(S, other.anchor), record.item(S, 1, "b")]);
  assertEquals(consumer.ends.map((end) => end.kind), ["dropped"]);
  assertEquals(other.consumer.items, ["b"]);
  assertEquals(solo.mux.stats.liveIngressSlots, 1);
});

Deno.test("Ingress drops records for a slot that never opened, and answers a beat for it", () => {
  const { solo, consumer } = opened();
  solo.receive([record.item(id(5), 1, "x"), record.close(id(5), 2, 0), record.item(S, 1, "a")]);
  assertEquals([solo.mux.stats.dropped.closed_slot, consumer.items], [2, ["a"]]);
  assertEquals(solo.take(), []);
  solo.receive([record.beat(id(5), 3)]);
  assertEquals(solo.take()[0], "close 5.0 #0 reason 2");
});

Deno.test("Ingress applies data in sequence and holds what is ahead of it until the gap closes", () => {
  const { solo, consumer, anchor } = opened();
  solo.receive([record.item(S, 3, "c"), record.item(S, 2, "b")]);
  assertEquals([consumer.items.length, solo.mux.stats.heldRecords, anchor.slot!.bytes], [0, 2, 18]);
  solo.receive([record.item(S, 1, "a"), record.item(S, 4, "d")]);
  assertEquals(consumer.items, ["a", "b", "c", "d"]);
  assertEquals([solo.mux.stats.heldRecords, anchor.slot!.bytes, solo.mux.bytesHeld], [0, 0, 0]);
});

Deno.test("Ingress drops records behind the sequence, and copies of held ones, as duplicates", () => {
  const { solo, consumer, slot } = opened();
  solo.receive([
    record.item(S, 1, "a"),
    record.item(S, 1, "again"),
    record.item(S, 3, "c"),
    record.item(S, 3, "c2"),
  ]);
  assertEquals([consumer.items, solo.mux.stats.dropped.duplicate], [["a"], 2]);
  solo.receive([record.item(S, 2, "b")]);
  assertEquals(consumer.items, ["a", "b", "c"]);
  assertEquals(slot().outstanding, 3);
  assertEquals(consumer.ends, []);
});

Deno.test("Ingress closes a slot that holds more bytes than its budget and leaves the others alone", () => {
  const { solo, consumer } = opened({ slotByteBudget: 1_024, initialCredit: 32 });
  const other = solo.register();
  solo.receive([record.open(id(1), other.anchor)]);
  solo.receive([2, 3, 4].map((seq) => record.item(S, seq, new Uint8Array(500))));
  assertEquals(consumer.ends.map((end) => end.kind), ["protocol"]);
  assertEquals([solo.mux.stats.holdOverflows, solo.mux.stats.heldRecords, solo.mux.bytesHeld], [1, 0, 0]);
  solo.receive([record.item(id(1), 1, "fine")]);
  assertEquals(solo.take(5), ["close 0.0 #0 reason 3", "credit 1.0 +1"]);
  assertEquals(other.consumer.items, ["fine"]);
});

Deno.test("Ingress holds no more records than the window and the terminal", () => {
  const { solo, consumer } = opened({ initialCredit: 2 });
  solo.receive([2, 3, 4].map((seq) => record.item(S, seq, "x")));
  assertEquals([consumer.ends.length, solo.mux.stats.heldRecords], [0, 3]);
  solo.receive([record.item(S, 5, "x")]);
  assertEquals([consumer.ends[0]?.kind, solo.mux.stats.heldRecords], ["protocol", 0]);
});

Deno.test("Ingress drops and meters a record at the wrong generation", () => {
  const { solo, consumer } = opened();
  solo.receive([record.item(id(0, 1), 1, "x"), record.item(S, 1, "a")]);
  assertEquals([solo.mux.stats.dropped.generation, solo.mux.stats.generationMismatches], [1, 1]);
  assertEquals(consumer.items, ["a"]);
});

Deno.test("Ingress discards a batch of an older epoch as a whole", () => {
  const solo = new SoloMux();
  const { anchor, consumer } = solo.register();
  solo.receive([record.open(S, anchor)], { epoch: 5n });
  solo.receive([record.item(S, 1, "old"), record.item(S, 2, "old")], { epoch: 4n });
  assertEquals([solo.mux.stats.dropped.stale_epoch, consumer.items], [2, []]);
});

Deno.test("Ingress retires every slot with one end each when the peer starts a newer epoch", () => {
  const { solo, consumer } = opened();
  const other = solo.register();
  solo.receive([record.open(id(1), other.anchor)]);
  const fresh = solo.register();
  solo.receive([record.open(S, fresh.anchor), record.item(S, 1, "new")], { epoch: 2n });
  assertEquals([consumer, other.consumer].map(({ ends }) => ends.map((end) => end.kind)), [["dropped"], [
    "dropped",
  ]]);
  assertEquals(fresh.consumer.items, ["new"]);
  assertEquals(solo.mux.stats.liveIngressSlots, 1);
});

Deno.test("Ingress delivers a terminal and injects nothing at the close behind it", () => {
  const { solo, consumer } = opened();
  solo.receive([record.item(S, 1, "a"), record.frame(S, 2, FINALIZED), record.close(S, 3, 0)]);
  assertEquals([consumer.items, consumer.ends], [["a"], [{ kind: "finalized" }]]);
  assertEquals([solo.mux.stats.liveIngressSlots, solo.mux.stats.liveAnchors], [0, 0]);
});

Deno.test("Ingress maps every end of an owner to one end of the consumer", () => {
  const cases: [string, Parameters<SoloMux["receive"]>[0], unknown][] = [
    ["error", [record.frame(S, 1, encodeTransportError("broken")), record.close(S, 2, 0)], {
      kind: "transport_error",
      message: "broken",
    }],
    ["dropped", [record.frame(S, 1, DROPPED), record.close(S, 2, 0)], {
      kind: "dropped",
      reason: "the producer left",
    }],
    ["gone", [record.close(S, 1, 1)], { kind: "dropped", reason: "the producer left" }],
    ["no terminal", [record.close(S, 1, 0)], {
      kind: "protocol",
      reason: "the slot was closed without a terminal",
    }],
  ];
  for (const [name, records, end] of cases) {
    const { solo, consumer } = opened();
    solo.receive(records);
    assertEquals(consumer.ends as unknown[], [end], name);
    assertEquals(solo.mux.stats.liveIngressSlots, 0, name);
  }
});

Deno.test("Ingress lets a terminal through when the data credit is spent", () => {
  const { solo, anchor, consumer } = opened({ initialCredit: 1 });
  anchor.pause();
  solo.receive([record.item(S, 1, "a"), record.frame(S, 2, FINALIZED), record.close(S, 3, 0)]);
  assertEquals([consumer.items, consumer.ends], [[], []]);
  anchor.resume();
  assertEquals([consumer.items, consumer.ends], [["a"], [{ kind: "finalized" }]]);
  assertEquals(solo.mux.bytesHeld, 0);
});

Deno.test("Ingress defers a close behind records it holds, and behind a gap that holds nothing", () => {
  const held = opened();
  held.solo.receive([record.item(S, 2, "b"), record.frame(S, 3, FINALIZED), record.close(S, 4, 0)]);
  assertEquals(held.consumer.ends, []);
  held.solo.receive([record.item(S, 1, "a")]);
  assertEquals([held.consumer.items, held.consumer.ends], [["a", "b"], [{ kind: "finalized" }]]);
  assertEquals(held.solo.mux.stats.liveIngressSlots, 0);

  const gap = opened();
  gap.solo.receive([record.close(S, 2, 1)]);
  assertEquals(gap.consumer.ends, []);
  gap.solo.receive([record.item(S, 1, "a")]);
  assertEquals([gap.consumer.items, gap.consumer.ends.map((end) => end.kind)], [["a"], ["dropped"]]);
});

Deno.test("Ingress passes a rejection and a grant about slots of this side to their senders", () => {
  const solo = new SoloMux();
  const sender = solo.open({ initialCredit: 1 });
  const other = solo.open({ initialCredit: 1 });
  const why: string[] = [];
  sender.onEnded = (end) => why.push(end);
  solo.receive([
    record.close(S, 0, 3),
    record.credit(id(1), 6),
    record.credit(id(77), 6),
    record.close(id(78), 0, 2),
  ]);
  assertEquals([sender.ended, why, other.ended, other.credit], ["rejected", ["rejected"], null, 7]);
});

Deno.test("Ingress returns credit as the consumer drains, all of it", () => {
  const { solo, anchor, consumer } = opened({ initialCredit: 8 });
  anchor.pause();
  solo.receive([1, 2, 3, 4, 5].map((seq) => record.item(S, seq, `${seq}`)));
  assertEquals(solo.take(50), []);
  consumer.take(3);
  assertEquals(solo.take(50), ["credit 0.0 +3"]);
  consumer.take(2);
  assertEquals(solo.take(50), ["credit 0.0 +2"]);
});

Deno.test("Ingress withholds a grant while the slot is over its byte watermark and gives it afterwards", () => {
  const { solo, anchor, consumer } = opened({ slotByteBudget: 1_024, initialCredit: 8 });
  anchor.pause();
  solo.receive([1, 2, 3, 4].map((seq) => record.item(S, seq, new Uint8Array(600))));
  consumer.take(2); // 1,200 bytes still wait
  assertEquals(solo.take(300), []);
  consumer.take(1);
  assertEquals(solo.take(300), ["credit 0.0 +3"]);
});

Deno.test("Ingress refuses the record that overspends the window and ends that stream alone", () => {
  const { solo, anchor, consumer } = opened({ initialCredit: 2 });
  const other = solo.register();
  anchor.pause();
  solo.receive([record.open(id(1), other.anchor), ...[1, 2, 3].map((seq) => record.item(S, seq, `${seq}`))]);
  solo.receive([record.item(id(1), 1, "fine")]);
  assertEquals(solo.take()[0], "close 0.0 #0 reason 3");
  anchor.resume();
  assertEquals([consumer.items, consumer.ends.map((end) => end.kind)], [["1", "2"], ["protocol"]]);
  assertEquals(other.consumer.items, ["fine"]);
});

Deno.test("Ingress charges a beat that is data and drains it at once; a beat record is free", () => {
  const { solo, consumer, slot } = opened({ initialCredit: 2 });
  solo.receive([record.frame(S, 1, HEARTBEAT)]);
  assertEquals(slot().outstanding, 1);
  assertEquals(solo.take(5), ["credit 0.0 +1"]);
  solo.receive([2, 3, 4, 5].map((seq) => record.beat(S, seq)));
  assertEquals([slot().outstanding, solo.take(5), consumer.ends], [0, [], []]);
});

Deno.test("Ingress ends what a shutdown finds, once", () => {
  const { solo, consumer } = opened();
  const other = solo.register();
  solo.mux.close();
  assertEquals([consumer, other.consumer].map(({ ends }) => ends.map((end) => end.kind)), [["dropped"], [
    "dropped",
  ]]);
  solo.receive([record.item(S, 1, "late")]);
  assertEquals([consumer.items, solo.mux.stats.liveIngressSlots, solo.clock.pendingTimers], [[], 0, 0]);
});

Deno.test("Ingress copies what waits and hands a view to a consumer that is ready", () => {
  const { solo, anchor, consumer } = opened();
  const views: Uint8Array[] = [];
  const onData = consumer.onData.bind(consumer);
  consumer.onData = (bytes, start, end) => {
    views.push(bytes);
    onData(bytes, start, end);
  };
  const batch = (records: Parameters<SoloMux["receive"]>[0]) => {
    let given!: Uint8Array;
    const handle = solo.mux.handleBatch.bind(solo.mux);
    solo.mux.handleBatch = (peer, connection, payload) => handle(peer, connection, given = payload);
    solo.receive(records);
    return given;
  };
  const straight = batch([record.item(S, 1, "straight")]);
  assertEquals(views[0] === straight, true);
  anchor.pause();
  const waiting = batch([record.item(S, 2, "waits"), record.note(S, 3, "note")]);
  waiting.fill(0x55);
  anchor.resume();
  assertEquals([consumer.items, consumer.notes], [["straight", "waits"], ["note"]]);
});

Deno.test("Ingress lets a consumer that throws hurt its own stream only", () => {
  const { solo, consumer } = opened();
  const other = solo.register();
  consumer.onData = () => {
    throw new Error("consumer");
  };
  solo.receive([record.open(id(1), other.anchor), record.item(S, 1, "a"), record.item(id(1), 1, "b")]);
  assertEquals([solo.errors.length, other.consumer.items], [1, ["b"]]);
  assertEquals(solo.take()[0], "close 0.0 #0 reason 2");
  other.consumer.onEnd = () => {
    throw new Error("end");
  };
  const third = solo.register();
  solo.receive([
    record.open(id(2), third.anchor),
    record.frame(id(1), 2, FINALIZED),
    record.item(id(2), 1, "c"),
  ]);
  assertEquals([solo.errors.length, third.consumer.items], [2, ["c"]]);
});

Deno.test("Ingress gives bytes back once when a consumer cancels or throws in the middle of a drain", () => {
  for (const how of ["cancels", "throws"]) {
    const { solo, anchor, consumer } = opened();
    const other = solo.register();
    other.anchor.pause();
    anchor.pause();
    solo.receive([record.open(id(1), other.anchor), record.item(id(1), 1, "twelve bytes")]);
    solo.receive([record.item(S, 1, "a"), record.item(S, 2, "b"), record.item(S, 3, "c")]);
    consumer.onData = () => {
      if (how === "throws") throw new Error("consumer");
      anchor.cancel("enough");
    };
    anchor.resume();
    assertEquals(solo.mux.bytesHeld, 12, how);
    assertEquals(consumer.ends, [], how);
  }
});

Deno.test("Ingress survives what a hostile peer may send, and keeps other streams", () => {
  const cases: [string, Parameters<SoloMux["receive"]>[0], string[]][] = [
    ["huge anchor id", [record.openRaw(id(3), 2n ** 64n - 1n, 2n ** 64n - 1n)], ["close 3.0 #0 reason 2"]],
    ["index at the limit", [record.openRaw(id(16), 1n, 1n)], ["close 16.0 #0 reason 3"]],
    ["largest index", [record.openRaw(0xffff_ffff, 1n, 1n)], ["close 16777215.255 #0 reason 3"]],
    ["credit for no slot", [record.credit(id(9), 0xffff_ffff), record.credit(0xffff_ffff, 1)], []],
    ["data for no slot", [record.item(0xffff_ffff, 1, "x")], []],
    ["two terminals", [record.frame(S, 1, FINALIZED), record.frame(S, 2, FINALIZED)], [
      "close 0.0 #0 reason 3",
    ]],
    [
      "data after terminal",
      [record.frame(S, 1, FINALIZED), record.item(S, 2, "x"), record.item(S, 9, "y")],
      [],
    ],
    ["a frame that is none", [record.frame(S, 1, text("nonsense"))], ["close 0.0 #0 reason 3"]],
    ["an empty frame", [record.frame(S, 1, new Uint8Array(0))], ["close 0.0 #0 reason 3"]],
    ["an array item", [record.frame(S, 1, Uint8Array.of(0x81, 0xa4, 0x49, 0x74, 0x65, 0x6d, 0x92, 1, 2))], [
      "close 0.0 #0 reason 3",
    ]],
  ];
  for (const [name, records, replies] of cases) {
    const { solo, consumer } = opened({ maxSlotsPerPeer: 16 });
    const other = solo.register("friend");
    solo.receive([record.open(S, other.anchor)], { peer: "friend" });
    solo.receive(records);
    assertEquals(solo.take(), replies, name);
    assertEquals(consumer.ends.length <= 1 && consumer.items.length === 0, true, name);
    solo.receive([record.item(S, 1, "fine")], { peer: "friend" });
    assertEquals(other.consumer.items, ["fine"], name);
    assertEquals([solo.errors, solo.mux.bytesHeld, solo.mux.stats.heldRecords], [[], 0, 0], name);
  }
});

Deno.test("Ingress gives nothing back twice when a peer sends records beyond its own terminal", () => {
  const { solo, anchor } = opened();
  const other = solo.register();
  other.anchor.pause();
  solo.receive([record.open(id(1), other.anchor), record.item(id(1), 1, "twelve bytes")]);
  solo.receive([record.item(S, 2, "ahead"), record.item(S, 3, "ahead"), record.frame(S, 1, FINALIZED)]);
  solo.receive([record.close(S, 2, 0)]);
  assertEquals([anchor.over, solo.mux.bytesHeld, solo.mux.stats.heldRecords], [true, 12, 0]);
});

Deno.test("Ingress splits what it owes over as many batches as the cap asks for", () => {
  for (const maxBatchBytes of [29, 64, 300]) {
    const solo = new SoloMux({ maxBatchBytes });
    const streams = Array.from({ length: 30 }, () => solo.register());
    solo.receive(streams.map(({ anchor }, i) => record.open(id(i), anchor)));
    solo.receive(streams.map((_, i) => record.item(id(i), 1, "x")));
    solo.receive(streams.map((_, i) => record.openRaw(id(100 + i), 999n, 1n)));
    const sent = solo.takeBatches(5);
    const all = sent.flat().sort();
    const wanted = streams.flatMap((_, i) => [`credit ${i}.0 +1`, `close ${100 + i}.0 #0 reason 2`]);
    assertEquals(all, wanted.sort(), `cap ${maxBatchBytes}`);
    assertEquals(sent.length > 1, true);
  }
});
