/**
 * ai-dynamo/dynamo#15001: stop and kill had no effect while the consumer was slow, because the task that would have
 * seen them was waiting to put a frame into a full buffer.
 */
import { assertEquals } from "@std/assert";
import { FakeWorld } from "../support/mux_world.ts";

/** A window of one whose consumer does not read: the first record waits there, the second at the worker. */
function stuck() {
  const world = new FakeWorld({ initialCredit: 1 });
  const stream = world.stream();
  stream.anchor.pause();
  const ends: string[] = [];
  stream.sender.onEnded = (why) => ends.push(why);
  stream.sender.sendData(world.bytes("first"));
  assertEquals(stream.sender.sendData(world.bytes("second")), false);
  world.clock.advance(100);
  assertEquals([world.worker.mux.stats.withheldRecords, stream.anchor.buffered], [1, 1]);
  return { world, ...stream, ends };
}

Deno.test("A consumer's stop reaches a worker whose window is closed, at once", () => {
  const { world, anchor, sender, ends, consumer } = stuck();
  anchor.cancel("stop");
  world.clock.advance(1);
  assertEquals([sender.ended === null, ends.length, consumer.ends], [false, 1, []]);
  world.assertQuiet();
});

Deno.test("A worker's kill frees its parked record and ends the consumer", () => {
  const { world, anchor, sender, consumer } = stuck();
  world.worker.mux.handleStop("front", anchor.ticket.handle, anchor.ticket.routingSessionId);
  assertEquals([sender.ended, world.worker.mux.stats.withheldRecords], ["stopped", 0]);
  assertEquals(consumer.ends, []);
  anchor.cancel("stop, then kill");
  world.clock.advance(1);
  world.assertQuiet();
});

Deno.test("Records keep their order when the consumer of a parked stream drains after all", () => {
  const { world, anchor, sender, consumer } = stuck();
  sender.finalize();
  world.clock.advance(100);
  anchor.resume();
  world.clock.advance(100);
  assertEquals([consumer.items, consumer.ends], [["first", "second"], [{ kind: "finalized" }]]);
  world.assertQuiet();
});

Deno.test("A stop is seen while the lane itself is parked", () => {
  const { world, anchor, sender, ends } = stuck();
  world.net.stall(world.net.lane("worker", "front"), true);
  anchor.cancel("stop");
  world.clock.advance(1);
  assertEquals([sender.ended === null, ends.length], [false, 1]);
});
