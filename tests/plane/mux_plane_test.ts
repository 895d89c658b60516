import { assertEquals } from "@std/assert";
import { MuxPlane } from "../../src/plane/mux_plane.ts";
import { MessengerNet } from "../support/messenger_net.ts";
import { RecordingConsumer } from "../support/recording_consumer.ts";

Deno.test("MuxPlane forgets a peer that is unregistered, and ends its streams once", async () => {
  const net = new MessengerNet();
  const [front, worker] = await net.pair();
  const frontPlane = new MuxPlane(front, {}, net.clock);
  const workerPlane = new MuxPlane(worker, {}, net.clock);
  const open = new RecordingConsumer();
  const sender = workerPlane.open(frontPlane.register(open, worker.instanceId).ticket);
  sender.sendData(new Uint8Array([65]));
  await net.clock.advanceAsync(20);
  const waiting = new RecordingConsumer();
  frontPlane.register(waiting, worker.instanceId);
  assertEquals(open.items, ["A"]);

  front.unregisterPeer(worker.instanceId);
  await net.clock.advanceAsync(1_000);
  assertEquals([open.ends, waiting.ends].map((ends) => ends.map((end) => end.kind)), [["dropped"], [
    "dropped",
  ]]);
  assertEquals(frontPlane.stats.liveAnchors, 0);
  assertEquals(frontPlane.stats.liveIngressSlots, 0);

  frontPlane.close();
  workerPlane.close();
  await net.close();
});
