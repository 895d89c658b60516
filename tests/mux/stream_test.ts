import { assertEquals } from "@std/assert";
import { FakeWorld } from "../support/mux_world.ts";

Deno.test("Mux carries a stream from open to its terminal in order", () => {
  const world = new FakeWorld();
  const { sender, consumer } = world.stream();
  for (let i = 0; i < 10; i++) sender.sendData(world.bytes(`t${i}`));
  sender.sendNote("done");
  sender.finalize();
  world.clock.advance(50);
  assertEquals(consumer.items, Array.from({ length: 10 }, (_, i) => `t${i}`));
  assertEquals(consumer.notes, ["done"]);
  assertEquals(consumer.ends, [{ kind: "finalized" }]);
  world.assertQuiet();
});

Deno.test("Mux lets a producer outrun its window as its consumer drains", () => {
  const world = new FakeWorld({ initialCredit: 4 });
  const { sender, consumer } = world.stream();
  let sent = 0;
  const pump = () => {
    while (sent < 1000 && sender.sendData(world.bytes(`${sent}`))) sent++;
    // The one that was refused waits in the sender.
    sent++;
  };
  sender.onWritable = pump;
  pump();
  world.clock.advance(5_000);
  sender.finalize();
  world.clock.advance(50);
  assertEquals(consumer.items.length, new Set(consumer.items).size);
  assertEquals(consumer.items.length >= 1000, true);
  assertEquals(consumer.ends, [{ kind: "finalized" }]);
  world.assertQuiet();
});

Deno.test("Mux tells the producer when the consumer cancels", () => {
  const world = new FakeWorld();
  const { sender, consumer, anchor } = world.stream();
  const ends: string[] = [];
  sender.onEnded = (why) => ends.push(why);
  sender.sendData(world.bytes("a"));
  world.clock.advance(5);
  anchor.cancel("gone");
  world.clock.advance(5);
  assertEquals(ends.length, 1);
  assertEquals(consumer.ends, []);
  assertEquals(sender.sendData(world.bytes("b")), false);
  world.assertQuiet();
});

Deno.test("Mux ends a stream once when its lane is cut, and the next stream works", () => {
  const world = new FakeWorld();
  const one = world.stream();
  one.sender.sendData(world.bytes("a"));
  world.clock.advance(5);
  world.net.cut(world.net.lane("worker", "front", 0));
  world.clock.advance(1_000);
  assertEquals(one.consumer.ends.map((e) => e.kind), ["dropped"]);
  assertEquals(one.sender.ended, "peer_lost");
  const two = world.stream();
  two.sender.sendData(world.bytes("b"));
  two.sender.finalize();
  world.clock.advance(50);
  assertEquals(two.consumer.items, ["b"]);
  assertEquals(two.consumer.ends, [{ kind: "finalized" }]);
  world.assertQuiet();
});
