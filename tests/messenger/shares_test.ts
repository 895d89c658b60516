import { assertEquals, assertRejects } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { MessengerNet } from "../support/messenger_net.ts";

Deno.test("Messenger answers others while one sender has all the requests it may have", async () => {
  const net = new MessengerNet();
  const [greedy, other] = [await net.node(), await net.node()];
  const hub = await net.node({ maxInFlight: 8 });
  for (const node of [greedy, other]) {
    node.registerPeer(hub.peerInfo);
    hub.registerPeer(node.peerInfo);
  }
  const gate = Promise.withResolvers<void>();
  hub.handleJson("_wait", () => gate.promise);
  hub.handleJson("_quick", () => 1);
  const waiting = Array.from({ length: 4 }, () => greedy.requestJson(hub.instanceId, "_wait", null, 5_000));
  const refused = greedy.requestJson(hub.instanceId, "_wait", null, 5_000);
  await net.run(assertRejects(() => refused, TokenplaneError, "too many requests"));
  assertEquals(await net.run(other.requestJson(hub.instanceId, "_quick", null, 100)), 1);
  gate.resolve();
  await net.run(Promise.all(waiting));
  assertEquals(hub.requests.inFlight, 0);
  assertEquals(await net.run(greedy.requestJson(hub.instanceId, "_quick", null, 100)), 1);
  net.network.resume({});
  await net.close();
});

Deno.test("Messenger answers others while a sender of staged payloads does not hand them out", async () => {
  const net = new MessengerNet();
  const [greedy, other] = [await net.node({ stagingThreshold: 8 }), await net.node()];
  const hub = await net.node({ maxInFlight: 32 });
  for (const node of [greedy, other]) {
    node.registerPeer(hub.peerInfo);
    hub.registerPeer(node.peerInfo);
  }
  let taken = 0;
  hub.handleOneWay("_big", () => void taken++);
  hub.handleJson("_quick", () => 1);
  // Nothing that the hub asks of it arrives.
  hub.sendOneWay(greedy.instanceId, 0, "_open", []);
  await net.pass();
  net.network.pause({ from: "node-3", to: "node-1" });
  for (let i = 0; i < 100; i++) greedy.sendOneWay(hub.instanceId, 0, "_big", [new Uint8Array(9)]);
  await net.pass(50);
  assertEquals(taken, 0);
  assertEquals(hub.requests.inFlight <= 2, true);
  assertEquals(await net.run(other.requestJson(hub.instanceId, "_quick", null, 100)), 1);
  net.network.resume({});
  await net.close();
});
