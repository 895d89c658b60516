import { assert, assertEquals } from "@std/assert";
import { FakeWorld } from "../support/mux_world.ts";
import { id, record, SoloMux, text } from "../support/solo_mux.ts";

const MANUAL = { kind: "manual" } as const;

Deno.test("Mux beats an idle stream within the interval, without credit, whatever the policy", () => {
  for (const flush of [MANUAL, { kind: "auto", onAdmission: false, maxLingerMs: 50 }] as const) {
    const solo = new SoloMux({ flush });
    const sender = solo.open({ initialCredit: 1, heartbeatIntervalMs: 1_000 });
    sender.sendData(text("a"));
    sender.sendData(text("withheld"));
    solo.take();
    let last = solo.clock.now();
    for (let beats = 0; beats < 10; last = solo.clock.now(), beats++) {
      while (solo.take(1).length === 0) assert(solo.clock.now() - last < 1_000, "the interval has passed");
    }
    assertEquals([sender.credit, sender.withheldRecords], [0, 1]);
  }
});

Deno.test("Mux beats by data frames with a peer that knows no free beats, at once and against credit", () => {
  const solo = new SoloMux({ flush: MANUAL });
  const sender = solo.open({ initialCredit: 2, heartbeatIntervalMs: 1_000, freeBeats: false });
  solo.take();
  const sent = solo.take(3_000);
  assertEquals(sent, ["data 0.0 #1 <heartbeat>", "data 0.0 #2 <heartbeat>"]);
  assertEquals([sender.credit, sender.ended], [0, null]);
  // The first record of the stream is still one that does not wait.
  solo.receive([record.credit(id(0), 1)]);
  sender.sendData(text("a"));
  assertEquals(solo.take(), ["data 0.0 #3 a"]);
});

Deno.test("Mux does not beat a busy stream", () => {
  const solo = new SoloMux();
  const sender = solo.open({ initialCredit: 1_000, heartbeatIntervalMs: 100 });
  for (let i = 0; i < 100; i++) {
    sender.sendData(text("a"));
    solo.clock.advance(20);
  }
  assertEquals(solo.take().filter((line) => line.startsWith("beat")), []);
});

Deno.test("Mux puts beats and grants before data in a batch", () => {
  const solo = new SoloMux({ flush: MANUAL });
  const [idle, busy] = [solo.open({ heartbeatIntervalMs: 1_000 }), solo.open({ initialCredit: 100 })];
  const { anchor } = solo.register();
  solo.receive([record.open(id(0), anchor)]);
  busy.sendData(text("first"));
  solo.take(400);
  busy.sendData(text("a"));
  busy.sendData(text("b"));
  solo.receive([record.item(id(0), 1, "x")]);
  const batch = solo.takeBatches(700).find((records) => records.some((line) => line.startsWith("data")))!;
  assertEquals(batch.map((line) => line.split(" ")[0]).indexOf("data") > 0, true, batch.join());
  assertEquals(idle.ended, null);
});

Deno.test("Mux writes a staged batch in place of a beat, so no beat overtakes its stream's own records", () => {
  const solo = new SoloMux({ flush: MANUAL });
  const sender = solo.open({ initialCredit: 100, heartbeatIntervalMs: 1_000 });
  sender.sendData(text("first"));
  solo.take();
  sender.sendData(text("staged"));
  assertEquals(solo.take(600), ["data 0.0 #2 staged"]);
});

Deno.test("Mux keeps a silent remote stream open far beyond the watchdog's windows", () => {
  const world = new FakeWorld({ heartbeatIntervalMs: 5_000 });
  const { sender, consumer } = world.stream();
  world.clock.advance(10 * 5_000 + 5_000);
  assertEquals([consumer.ends, sender.ended], [[], null]);
  sender.sendData(world.bytes("late"));
  sender.finalize();
  world.clock.advance(50);
  assertEquals([consumer.items, consumer.ends], [["late"], [{ kind: "finalized" }]]);
  world.assertQuiet();
});

Deno.test("Mux kills a stream whose sender is silent for three windows, and tells the sender", () => {
  const solo = new SoloMux({ heartbeatIntervalMs: 1_000, missedBeats: 3 });
  const { anchor, consumer } = solo.register();
  solo.receive([record.open(id(0), anchor)]);
  solo.take(3_900); // one window in which the open was heard, then three
  assertEquals(consumer.ends, []);
  assertEquals(solo.take(200), ["close 0.0 #0 reason 2"]);
  assertEquals(consumer.ends.map((end) => end.kind), ["timeout"]);
  assertEquals([solo.mux.stats.watchdogFirings, solo.mux.stats.liveIngressSlots], [1, 0]);
});

// ai-dynamo/dynamo, UCX transport: 1,722 streams of a healthy worker were killed because their beats lay unread.
Deno.test("Mux kills no stream while what its connection has brought lies unread, and one that is dead after that", () => {
  const solo = new SoloMux({ heartbeatIntervalMs: 1_000, missedBeats: 3 });
  let caughtUpMs = 0;
  solo.source = { caughtUpAt: () => caughtUpMs };
  const [silent, other] = [solo.register(), solo.register()];
  solo.receive([record.open(id(0), silent.anchor), record.open(id(1), other.anchor)]);
  // A receiver that is never through with what has come, and gets to hear one stream but not the other.
  for (let seq = 1; seq <= 30; seq++) {
    solo.receive([record.beat(id(1), seq)]);
    solo.take(900);
  }
  assertEquals([silent.consumer.ends, solo.mux.stats.watchdogFirings], [[], 0]);
  // Twice it is through for a moment, which is two of three.
  for (let seq = 31; seq <= 32; seq++) {
    caughtUpMs = solo.clock.now();
    solo.receive([record.beat(id(1), seq)]);
    solo.take(1_000);
  }
  assertEquals(silent.consumer.ends, []);
  caughtUpMs = Infinity;
  solo.receive([record.beat(id(1), 33)]);
  solo.take(1_000);
  assertEquals([silent.consumer.ends.map(({ kind }) => kind), other.consumer.ends], [["timeout"], []]);
});

Deno.test("Mux goes by the connection that brought the last batch", () => {
  const solo = new SoloMux({ heartbeatIntervalMs: 1_000, missedBeats: 3 });
  const { anchor, consumer } = solo.register();
  solo.source = { caughtUpAt: () => 0 };
  solo.receive([record.open(id(0), anchor)]);
  solo.take(10_000);
  assertEquals(consumer.ends, []);
  solo.source = undefined;
  solo.receive([], { connection: 2 });
  solo.take(4_000);
  assertEquals(consumer.ends.map(({ kind }) => kind), ["timeout"]);
});

Deno.test("Mux counts any record as a sign of life", () => {
  const solo = new SoloMux({ heartbeatIntervalMs: 1_000, missedBeats: 1 });
  const { anchor, consumer } = solo.register();
  solo.receive([record.open(id(0), anchor)]);
  for (let seq = 1; seq <= 10; seq++) {
    solo.receive([seq % 2 === 0 ? record.beat(id(0), seq) : record.item(id(0), seq, "x")]);
    solo.take(900);
  }
  assertEquals(consumer.ends, []);
});

Deno.test("Mux exempts a sender without credit from the watchdog, until it has credit again", () => {
  const solo = new SoloMux({ heartbeatIntervalMs: 1_000, initialCredit: 1 });
  const { anchor, consumer } = solo.register();
  anchor.pause();
  solo.receive([record.open(id(0), anchor), record.item(id(0), 1, "a")]);
  solo.take(60_000);
  assertEquals([consumer.ends, solo.mux.stats.watchdogFirings], [[], 0]);
  anchor.resume();
  solo.take(5_000);
  assertEquals(consumer.ends.map((end) => end.kind), ["timeout"]);
});

Deno.test("Mux holds one timer for any number of streams, and none when they are gone", () => {
  const world = new FakeWorld();
  const streams = Array.from({ length: 500 }, () => world.stream());
  world.clock.advance(10);
  for (const { mux } of [world.front, world.worker]) assertEquals(mux.timers.timers, 1);
  for (const { sender } of streams) sender.finalize();
  world.clock.advance(1_000);
  for (const { mux } of [world.front, world.worker]) assertEquals(mux.timers, { entries: 0, timers: 0 });
  assertEquals(world.clock.pendingTimers, 0);
  world.assertQuiet();
});

Deno.test("Mux holds one timer for 200,000 streams that nobody has opened, and little memory", () => {
  const solo = new SoloMux({ acceptTimeoutMs: 60_000 });
  const before = Deno.memoryUsage().heapUsed;
  let ended = 0;
  const consumer = { onData() {}, onNote() {}, onEnd: () => void ended++ };
  for (let i = 0; i < 200_000; i++) solo.mux.register(consumer, "peer");
  const mib = (Deno.memoryUsage().heapUsed - before) / 1_048_576;
  assertEquals([solo.mux.timers.timers, solo.clock.pendingTimers], [1, 1]);
  assert(mib < 170, `${mib.toFixed(0)} MiB`);
  solo.clock.advance(60_001);
  assertEquals([ended, solo.mux.timers, solo.mux.stats.liveAnchors], [200_000, { entries: 0, timers: 0 }, 0]);
  assertEquals(solo.link.stops.length, 200_000);
});
