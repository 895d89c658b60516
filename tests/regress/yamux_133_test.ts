/**
 * hashicorp/yamux#133: a writer blocked for minutes and leaked, because its peer had closed and stopped reading, and
 * nothing said that no credit would ever come.
 */
import { assertEquals } from "@std/assert";
import { FakeWorld } from "../support/mux_world.ts";

Deno.test("A writer learns within 100 ms that its reader has ended and will never read again", () => {
  const world = new FakeWorld({ initialCredit: 8 });
  const { sender, consumer, anchor } = world.stream();
  consumer.takes = 5;
  let sent = 0;
  const write = () => {
    while (sent < 1_000 && sender.ended === null) {
      sent++;
      if (!sender.sendData(world.bytes(`message ${sent}`))) return;
    }
  };
  sender.onWritable = write;
  write();
  world.clock.advance(50);
  assertEquals(consumer.items.length, 5);
  const ends: string[] = [];
  sender.onEnded = (why) => ends.push(why);
  anchor.cancel("read enough");
  world.clock.advance(100);
  assertEquals([ends.length, sender.writable, sender.sendData(world.bytes("more"))], [1, false, false]);
  world.assertQuiet();
  world.clock.advance(1_000);
  assertEquals(world.clock.pendingTimers, 0);
});
