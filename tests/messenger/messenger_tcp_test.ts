/** Two messengers over real TCP lanes. */
import { assertEquals, assertRejects } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { Messenger } from "../../src/messenger/messenger.ts";
import { peerInfoFromJson, peerInfoToJson } from "../../src/messenger/peer_info.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";

Deno.test("Messenger joins by address, calls, streams on four lanes and shuts down over TCP", async () => {
  const [tcpA, tcpB] = [new TcpTransport(), new TcpTransport()];
  const [a, b] = [new Messenger({ transports: [tcpA] }), new Messenger({ transports: [tcpB] })];
  const seen = new Map<number, number[]>();
  const all = Promise.withResolvers<void>();
  let count = 0;
  b.handleOneWay("_stream_batch", (payload) => {
    const [lane, n] = payload;
    seen.set(lane!, [...seen.get(lane!) ?? [], n!]);
    if (++count === 400) all.resolve();
  });
  b.handleJson("join", (input, origin) => {
    b.registerPeer(peerInfoFromJson(input));
    return { id: origin.workerId, peer: peerInfoToJson(b.peerInfo) };
  });
  await Promise.all([a.start(), b.start()]);
  const address = `127.0.0.1:${tcpB.address.port}`;
  const answer = await a.requestJsonAt(address, "join", peerInfoToJson(a.peerInfo), 5_000) as Record<
    string,
    unknown
  >;
  assertEquals(answer["id"], a.workerId);
  a.registerPeer(peerInfoFromJson(answer["peer"]));
  assertEquals(a.lanesTo(b.instanceId), 4);
  for (let i = 0; i < 400; i++) {
    a.sendOneWay(b.instanceId, i % 4, "_stream_batch", [new Uint8Array([i % 4, i >> 2])]);
  }
  await all.promise;
  for (const lane of [0, 1, 2, 3]) assertEquals(seen.get(lane), Array.from({ length: 100 }, (_, i) => i));
  assertEquals(await a.requestJson(b.instanceId, "join", peerInfoToJson(a.peerInfo), 5_000), answer);
  b.beginDrain();
  const error = await assertRejects(() => a.requestJson(b.instanceId, "join", null, 5_000), TokenplaneError);
  assertEquals(error.code, "unavailable");
  await Promise.all([a.shutdown(2_000), b.shutdown(2_000)]);
  assertEquals([tcpA.stats.connections, tcpB.stats.connections], [0, 0]);
});

Deno.test("Messenger fails a call when the process it went to is gone", async () => {
  const [tcpA, tcpB] = [new TcpTransport(), new TcpTransport()];
  const [a, b] = [new Messenger({ transports: [tcpA] }), new Messenger({ transports: [tcpB] })];
  await Promise.all([a.start(), b.start()]);
  const reached = Promise.withResolvers<void>();
  b.handleJson("_hang", () => {
    reached.resolve();
    return new Promise(() => {});
  });
  a.registerPeer(b.peerInfo);
  const call = a.requestJson(b.instanceId, "_hang", null, 60_000);
  await reached.promise;
  await tcpB.shutdown(0);
  assertEquals((await assertRejects(() => call, TokenplaneError)).code, "connection");
  const again = await assertRejects(
    () => a.requestJson(b.instanceId, "_hang", null, 60_000),
    TokenplaneError,
  );
  assertEquals(again.code, "connection");
  await Promise.all([a.shutdown(0), b.shutdown(0)]);
});
