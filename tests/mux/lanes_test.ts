import { assertEquals } from "@std/assert";
import type { EgressStream } from "../../src/mux/egress_stream.ts";
import { FakeWorld } from "../support/mux_world.ts";
import { id, record, SoloMux, text } from "../support/solo_mux.ts";

Deno.test("Mux spreads streams over lanes and leaves each on its own", () => {
  const world = new FakeWorld({ lanes: 4 });
  const streams = Array.from({ length: 40 }, () => world.stream());
  const lanes = streams.map(({ sender }) => (sender as EgressStream).lane);
  assertEquals([0, 1, 2, 3].map((lane) => lanes.filter((at) => at === lane).length), [10, 10, 10, 10]);
  for (let round = 0; round < 50; round++) {
    for (const { sender } of streams) sender.sendData(world.bytes(`${round}`));
    world.clock.advance(20);
  }
  for (const { sender } of streams) sender.finalize();
  world.clock.advance(50);
  for (const { consumer } of streams) {
    assertEquals(consumer.items, Array.from({ length: 50 }, (_, i) => `${i}`));
    assertEquals(consumer.ends, [{ kind: "finalized" }]);
  }
  assertEquals(streams.map(({ sender }) => (sender as EgressStream).lane), lanes);
  world.assertQuiet();
});

Deno.test("Mux keeps to one lane with a peer that was offered none", () => {
  const solo = new SoloMux({ lanes: 4 });
  const lanes = Array.from({ length: 8 }, () => solo.open({ lanes: 0 }).lane);
  assertEquals(new Set(lanes), new Set([0]));
});

Deno.test("Mux takes batches with a lane it does not know as lane 0", () => {
  const solo = new SoloMux({ lanes: 2 });
  const { anchor, consumer } = solo.register();
  solo.receive([record.open(id(0), anchor)], { flags: 77 });
  solo.receive([record.item(id(0), 1, "a")], { flags: 0 });
  assertEquals(consumer.items, ["a"]);
});

Deno.test("Mux ends only the streams of a lane that is lost, and uses the lane again", () => {
  for (const direction of ["data", "credit"] as const) {
    const world = new FakeWorld({ lanes: 2 });
    const [one, two] = [world.stream(), world.stream()];
    for (const { sender } of [one, two]) sender.sendData(world.bytes("a"));
    world.clock.advance(10);
    world.net.cut(
      direction === "data" ? world.net.lane("worker", "front", 0) : world.net.lane("front", "worker", 0),
    );
    world.clock.advance(400);
    assertEquals(one.consumer.ends.map((end) => end.kind), ["dropped"], direction);
    assertEquals(one.sender.ended === null, false, direction);
    assertEquals([two.consumer.ends, two.sender.ended], [[], null], direction);
    const three = world.stream();
    assertEquals((three.sender as EgressStream).lane, 0);
    for (const { sender } of [two, three]) {
      sender.sendData(world.bytes("b"));
      sender.finalize();
    }
    world.clock.advance(50);
    assertEquals(three.consumer.items, ["b"], direction);
    assertEquals([two, three].map(({ consumer }) => consumer.ends), [[{ kind: "finalized" }], [{
      kind: "finalized",
    }]]);
    world.assertQuiet();
  }
});

Deno.test("Mux ends a stream by epoch when an admitted batch was lost with its lane", () => {
  const world = new FakeWorld();
  const { sender, consumer } = world.stream();
  world.clock.advance(10);
  sender.sendData(world.bytes("lost"));
  world.clock.runDeferred(); // admitted, on the wire
  world.net.cut(world.net.lane("worker", "front"));
  const ends: string[] = [];
  sender.onEnded = (why) => ends.push(why);
  world.clock.advance(1_000);
  assertEquals([ends, consumer.items, consumer.ends.map((end) => end.kind)], [["peer_lost"], [], [
    "dropped",
  ]]);
  assertEquals(world.worker.mux.stats.epochDeaths, 1);
  world.assertQuiet();
});

Deno.test("Mux retires a dead peer's streams after the grace, not after the watchdog", () => {
  const world = new FakeWorld({ peerGraceMs: 250 });
  const { sender, consumer } = world.stream();
  const consumers = [consumer, world.stream().consumer];
  sender.sendData(world.bytes("a"));
  world.clock.advance(10);
  // The receiver only sees its inbound connection close: nothing says that it is an epoch.
  const lane = world.net.lane("worker", "front");
  world.net.nodes.delete("worker");
  world.front.mux.handleConnectionClosed(lane.connection);
  world.clock.advance(240);
  assertEquals(consumers.map(({ ends }) => ends.length), [0, 0]);
  world.clock.advance(20);
  assertEquals(consumers.map(({ ends }) => ends.map((end) => end.kind)), [["dropped"], ["dropped"]]);
  assertEquals(world.front.mux.stats.liveIngressSlots, 0);
});

Deno.test("Mux keeps the streams of a connection that was replaced within the grace", () => {
  const solo = new SoloMux();
  const { anchor, consumer } = solo.register();
  solo.receive([record.open(id(0), anchor)], { connection: 1 });
  solo.mux.handleConnectionClosed(1);
  solo.receive([record.item(id(0), 1, "a")], { connection: 2 });
  solo.take(2_000);
  assertEquals([consumer.items, consumer.ends], [["a"], []]);
});

Deno.test("Mux ends senders whose credit came by a connection that is gone, and tells their consumers", () => {
  const solo = new SoloMux({ lanes: 2 });
  const [here, there] = [solo.open({ lanes: 2 }), solo.open({ lanes: 2 })];
  const why: string[] = [];
  here.onEnded = (end) => why.push(end);
  solo.receive([record.credit(id(0), 1)], { connection: 4 });
  solo.take();
  solo.mux.handleConnectionClosed(4);
  assertEquals([here.ended, why, there.ended], ["peer_lost", ["peer_lost"], null]);
  assertEquals(solo.take(), ["close 0.0 #1 reason 1"]);
});

Deno.test("Mux ends streams both ways, once, when a peer is forgotten", () => {
  const world = new FakeWorld();
  const [one, two] = [world.stream(), world.stream()];
  one.sender.sendData(world.bytes("a"));
  world.clock.advance(10);
  world.net.kill("worker");
  world.front.mux.forgetPeer("worker", "it left");
  world.front.mux.forgetPeer("worker", "it left");
  world.clock.advance(1_000);
  assertEquals([one, two].map(({ consumer }) => consumer.ends.length), [1, 1]);
  assertEquals([one, two].map(({ sender }) => sender.ended === null), [false, false]);
  world.assertQuiet();
  assertEquals(world.clock.pendingTimers, 0);
});

Deno.test("Mux streams to both of two nodes at once, both ways", () => {
  const world = new FakeWorld({ lanes: 2, initialCredit: 4 });
  const forth = world.stream();
  const consumer = world.stream().consumer;
  const back = world.worker.mux.register(consumer, "front");
  const backSender = world.front.mux.open("worker", back.ticket);
  for (let i = 0; i < 200; i++) {
    forth.sender.sendData(text(`f${i}`));
    backSender.sendData(text(`b${i}`));
    world.clock.advance(2);
  }
  forth.sender.finalize();
  backSender.finalize();
  world.clock.advance(2_000);
  assertEquals(forth.consumer.items, Array.from({ length: 200 }, (_, i) => `f${i}`));
  assertEquals(consumer.items, Array.from({ length: 200 }, (_, i) => `b${i}`));
});

Deno.test("Mux ends the streams whose credit a lost lane has carried, and says so on its successor", () => {
  const solo = new SoloMux({ lanes: 2 });
  const [here, there] = [solo.register(), solo.register()];
  solo.receive([record.open(id(0), here.anchor)], { flags: 0 });
  solo.receive([record.open(id(0), there.anchor)], { flags: 1, connection: 2 });
  solo.mux.handleLaneLost("peer", 0, "cut");
  solo.clock.advance(0);
  assertEquals([here, there].map(({ consumer }) => consumer.ends.map((end) => end.kind)), [["dropped"], []]);
  assertEquals(solo.link.sent.map(({ lane, records }) => [lane, records]), [[0, ["close 0.0 #0 reason 2"]]]);
});
