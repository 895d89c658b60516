/**
 * libp2p/rust-yamux#227 at the level of the mux: both sides stop reading while a reply of theirs waits to be written.
 * Here both nodes write far more than lanes and windows hold, over lanes that take one batch at a time, and every
 * record is answered by credit.
 */
import { assertEquals } from "@std/assert";
import { FakeWorld } from "../support/mux_world.ts";
import { RecordingConsumer } from "../support/recording_consumer.ts";

const STREAMS = 4;
const RECORDS = 1_024;
const PAYLOAD = new Uint8Array(1_024);

Deno.test("Two muxes that write to each other through full lanes both go on reading", () => {
  const world = new FakeWorld({ initialCredit: 8, maxBatchBytes: 4_096 }, { depth: 1, delayMs: 0.5 });
  const consumers: RecordingConsumer[] = [];
  for (const [from, to] of [[world.front, world.worker], [world.worker, world.front]] as const) {
    for (let n = 0; n < STREAMS; n++) {
      const consumer = new RecordingConsumer();
      consumers.push(consumer);
      const sender = from.mux.open(to.id, to.mux.register(consumer, from.id).ticket);
      let sent = 0;
      const write = () => {
        while (sent < RECORDS) {
          sent++;
          if (!sender.sendData(PAYLOAD)) return;
        }
        sender.finalize();
      };
      sender.onWritable = write;
      write();
    }
  }
  const most = { replies: 0 };
  for (let second = 0; second < 60 && consumers.some(({ ends }) => ends.length === 0); second++) {
    const before = consumers.map(({ items }) => items.length);
    world.clock.advance(1_000);
    for (const [i, { items, ends }] of consumers.entries()) {
      assertEquals(
        ends.length > 0 || items.length > before[i]!,
        true,
        `stream ${i} got nothing for a second`,
      );
    }
    for (const lane of world.net.lanes.values()) most.replies = Math.max(most.replies, lane.waiting.length);
  }
  assertEquals(consumers.map(({ items }) => items.length), consumers.map(() => RECORDS));
  assertEquals(most.replies <= 1, true, "replies are state, not a queue");
  world.assertQuiet();
});
