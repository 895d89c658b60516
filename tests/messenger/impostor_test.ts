import { assertEquals, assertRejects } from "@std/assert";
import { peerInfoToJson } from "../../src/messenger/peer_info.ts";
import { MessengerNet } from "../support/messenger_net.ts";

Deno.test("Messenger does not move a connected peer to the address that an impostor names", async () => {
  const net = new MessengerNet();
  const [front, worker] = await net.pair();
  const got: string[] = [];
  worker.handleOneWay("note", (payload) => got.push(new TextDecoder().decode(payload)));
  await net.run(worker.requestJson(front.instanceId, "_list_handlers", null, 1_000));

  const impostor = await net.node({ instanceId: worker.instanceId });
  const stolen: string[] = [];
  impostor.handleOneWay("note", (payload) => stolen.push(new TextDecoder().decode(payload)));
  impostor.registerPeer(front.peerInfo);
  const hello = { peer_info: peerInfoToJson(impostor.peerInfo) };
  await assertRejects(() => net.run(impostor.requestJson(front.instanceId, "_hello", hello, 200)));

  front.sendOneWay(worker.instanceId, 0, "note", [new TextEncoder().encode("secret")]);
  await net.clock.advanceAsync(100);
  assertEquals([got, stolen], [["secret"], []]);
  await net.close();
});

Deno.test("Messenger moves a peer that is not connected any more", async () => {
  const net = new MessengerNet();
  const [front, worker] = await net.pair();
  await net.run(worker.requestJson(front.instanceId, "_list_handlers", null, 1_000));
  net.network.cut();
  await net.clock.advanceAsync(100);
  const moved = await net.node({ instanceId: worker.instanceId });
  moved.registerPeer(front.peerInfo);
  await net.run(
    moved.requestJson(front.instanceId, "_hello", { peer_info: peerInfoToJson(moved.peerInfo) }, 1_000),
  );
  assertEquals(front.peer(worker.instanceId)?.info, moved.peerInfo);
  await net.close();
});
