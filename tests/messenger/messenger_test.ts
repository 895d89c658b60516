import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import type { Messenger } from "../../src/messenger/messenger.ts";
import { peerInfoToJson } from "../../src/messenger/peer_info.ts";
import type { MessageOrigin } from "../../src/messenger/types.ts";
import { newInstanceId } from "../../src/messenger/worker_id.ts";
import { MessengerNet } from "../support/messenger_net.ts";

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** Runs a test on its own network and closes it. */
function test(title: string, body: (net: MessengerNet) => Promise<void>, options = {}): void {
  Deno.test(title, async () => {
    const net = new MessengerNet(options);
    await body(net);
    await net.close();
  });
}

async function codeOf(net: MessengerNet, call: Promise<unknown>): Promise<string> {
  const error = await assertRejects(() => net.run(call), TokenplaneError);
  return `${error.code}: ${error.message}`;
}

test("Messenger.requestJson is answered, u64 and all, by sync and async handlers", async (net) => {
  const [a, b] = await net.pair();
  b.handleJson("sync", (input) => ({ input }));
  b.handleJson("async", async (input) => {
    await Promise.resolve();
    return [input];
  });
  b.handleJson("nothing", () => undefined);
  const big = 2n ** 64n - 1n;
  assertEquals(await net.run(a.requestJson(b.instanceId, "sync", { big }, 1_000)), { input: { big } });
  assertEquals(await net.run(a.requestJson(b.instanceId, "async", "x", 1_000)), ["x"]);
  assertEquals(await net.run(a.requestJson(b.instanceId, "nothing", null, 1_000)), null);
  assertEquals([a.outbox.calls.arena.pending, b.requests.inFlight], [0, 0]);
});

test("Messenger.requestAck resolves on ack and rejects with the peer's text on nack", async (net) => {
  const [a, b] = await net.pair();
  const seen: string[] = [];
  b.handleBytes("take", (payload) => void seen.push(decode(payload)));
  b.handleBytes("boom", () => {
    throw new TokenplaneError("internal", "secret detail", { wire: "boom" });
  });
  assertEquals(await net.run(a.requestAck(b.instanceId, "take", encode("hi"), 1_000)), undefined);
  assertEquals(await codeOf(net, a.requestAck(b.instanceId, "boom", encode(""), 1_000)), "remote: boom");
  assertEquals(seen, ["hi"]);
});

test("Messenger tells a caller why its request failed", async (net) => {
  const [a, b] = await net.pair();
  b.handleJson("throws", () => {
    throw new Error("went wrong");
  });
  b.handleJson("rejects", () => Promise.reject(new Error("went wrong later")));
  b.handleJson("_silent", () => new Promise(() => {}));
  const call = (handler: string, peer = b.instanceId): Promise<string> =>
    codeOf(net, a.requestJson(peer, handler, 1, 500));
  assertEquals(await call("throws"), "remote: went wrong");
  assertEquals(await call("rejects"), "remote: went wrong later");
  assertEquals(await call("_gone"), "handler_not_found: Handler '_gone' not found");
  assertEquals(await call("gone"), `handler_not_found: Handler 'gone' not found on instance ${b.instanceId}`);
  assertEquals(await call("_silent"), 'timeout: Cannot call "_silent": no answer within 500 ms');
  assertEquals(await call("x", newInstanceId()).then((text) => text.split(":")[0]), "peer_unknown");
  const bytes = a.requestBytes(b.instanceId, "throws", encode("{"), 500);
  assertEquals((await codeOf(net, bytes)).slice(0, 37), "remote: Failed to deserialize input: ");
  assertEquals(b.handlers.find(encode("throws"))?.stats.failures, 2);
  assertEquals(a.outbox.calls.arena.pending, 0);
});

test("Messenger says hello once per peer, and again only for a handler it does not know", async (net) => {
  const [a, b] = await net.pair();
  const hellos = (): number => b.handlers.find(encode("_hello"))!.stats.requests[2]!;
  b.handleJson("one", () => 1);
  for (let i = 0; i < 3; i++) await net.run(a.requestJson(b.instanceId, "one", null, 1_000));
  assertEquals(hellos(), 1);
  a.registerPeer(b.peerInfo);
  await net.run(Promise.all([1, 2, 3].map(() => a.requestJson(b.instanceId, "one", null, 1_000))));
  assertEquals(hellos(), 1, "the list outlives a registration");
  b.handleJson("two", () => 2);
  assertEquals(await net.run(a.requestJson(b.instanceId, "two", null, 1_000)), 2);
  assertEquals(hellos(), 2);
  await codeOf(net, a.requestJson(b.instanceId, "three", null, 1_000));
  assertEquals(hellos(), 3);
  a.unregisterPeer(b.instanceId);
  a.registerPeer(b.peerInfo);
  await net.run(a.requestJson(b.instanceId, "two", null, 1_000));
  assertEquals(hellos(), 4, "a forgotten peer is asked anew");
});

test("Messenger answers whoever its handler registered", async (net) => {
  const [a, b] = [await net.node(), await net.node()];
  const origins: MessageOrigin[] = [];
  b.handleJson("_join", (_input, origin) => {
    origins.push(origin);
    b.registerPeer(a.peerInfo);
    return "welcome";
  });
  b.handleJson("_who", (_input, origin) => void origins.push(origin));
  assertEquals(await net.run(a.requestJsonAt("node-2", "_join", null, 1_000)), "welcome");
  a.registerPeer(b.peerInfo);
  await net.run(a.requestJson(b.instanceId, "_who", null, 1_000));
  assertEquals(origins.map((origin) => origin.workerId), [a.workerId, a.workerId]);
  assertEquals(origins.map((origin) => origin.peer?.instanceId), [undefined, a.instanceId]);
  assert(origins[0]!.connection !== origins[1]!.connection, "the bootstrap had a connection of its own");
});

test("Messenger.requestJsonAt forgets the node it called, answered or not", async (net) => {
  const [a, b] = [await net.node(), await net.node()];
  const lost: string[] = [];
  a.listen({ onLaneLost: (peer) => void lost.push(peer) });
  const hello = { peer_info: peerInfoToJson(a.peerInfo) };
  const answer = await net.run(a.requestJsonAt("node-2", "_hello", hello, 1_000)) as { handlers: string[] };
  assertEquals(answer.handlers.slice(0, 2), ["_hello", "_list_handlers"]);
  assertEquals(b.peer(a.instanceId)?.workerId, a.workerId);
  assertEquals(
    (await codeOf(net, a.requestJsonAt("nowhere", "_hello", hello, 1_000))).split(":")[0],
    "connection",
  );
  b.unregisterPeer(a.instanceId);
  const unanswerable = a.requestJsonAt("node-2", "_list_handlers", null, 300);
  assertEquals((await codeOf(net, unanswerable)).split(":")[0], "timeout");
  assertEquals(b.stats.dispatchFailures, { unanswerable: 1 });
  assertEquals([a.peerCount, lost.length], [0, 0]);
});

test("Messenger handles one-way messages in order and survives a handler that throws", async (net) => {
  const [a, b] = await net.pair();
  const seen: number[] = [];
  b.handleOneWay("_stream_batch", (payload, origin) => {
    assertEquals([origin.workerId, origin.peer?.instanceId], [a.workerId, a.instanceId]);
    seen.push(payload[0]!);
    if (payload[0] === 3) throw new Error("bad batch");
  });
  for (let i = 0; i < 10; i++) assert(a.sendOneWay(b.instanceId, 0, "_stream_batch", [new Uint8Array([i])]));
  await net.pass();
  assertEquals(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  const { stats } = b.handlers.find(encode("_stream_batch"))!;
  assertEquals([stats.requests[0], stats.failures, stats.requestBytes], [10, 1, 10]);
});

test("Messenger does not hold messages up behind a request that takes its time", async (net) => {
  const [a, b] = await net.pair();
  const seen: string[] = [];
  const gate = Promise.withResolvers<void>();
  b.handleJson("_slow", async () => {
    seen.push("slow");
    await gate.promise;
    return "done";
  });
  b.handleOneWay("_note", (payload) => void seen.push(decode(payload)));
  const slow = a.requestJson(b.instanceId, "_slow", null, 5_000);
  for (const text of ["one", "two"]) a.sendOneWay(b.instanceId, 0, "_note", [encode(text)]);
  await net.pass();
  assertEquals([seen, b.requests.inFlight], [["slow", "one", "two"], 1]);
  gate.resolve();
  assertEquals([await net.run(slow), b.requests.inFlight], ["done", 0]);
});

test("Messenger keeps order and its header apart when admission has to wait", async (net) => {
  const [a, b] = await net.pair();
  const seen: string[] = [];
  for (const name of ["_x", "_y"]) b.handleOneWay(name, (payload) => void seen.push(name + payload[0]));
  const expected: string[] = [];
  let admitted = 0;
  for (let i = 0; i < 50; i++) {
    const name = i % 3 === 0 ? "_y" : "_x";
    expected.push(name + i);
    if (a.sendOneWay(b.instanceId, 0, name, [new Uint8Array([i])], () => admitted++)) admitted++;
  }
  await net.pass(100);
  assertEquals([seen, admitted], [expected, 50]);
}, { queueFrames: 2 });

test("Messenger fails calls when their lane is lost, and tells its listeners of both ends", async (net) => {
  const [a, b] = await net.pair();
  const log: string[] = [];
  a.listen({ onLaneLost: (peer, lane) => void log.push(`lost ${peer === b.instanceId} ${lane}`) });
  b.listen({ onConnectionClosed: (connection) => void log.push(`closed ${connection}`) });
  let connection = 0;
  b.handleJson("_silent", (_input, origin) => {
    connection = origin.connection;
    return new Promise(() => {});
  });
  const call = a.requestJson(b.instanceId, "_silent", null, 60_000);
  call.catch(() => {});
  await net.pass();
  net.network.cut({ from: "node-1" });
  assertEquals((await codeOf(net, call)).split(":")[0], "connection");
  assertEquals(log, [`closed ${connection}`, "lost true 0"]);
  assertEquals([b.lanes.lanes, a.outbox.calls.arena.pending], [0, 0]);
});

test("Messenger calls onReadEnd after the messages of one read", async (net) => {
  const [a, b] = await net.pair();
  const log: string[] = [];
  b.handleOneWay("_m", () => void log.push("m"));
  b.listen({ onReadEnd: () => void log.push("end") });
  for (let i = 0; i < 3; i++) a.sendOneWay(b.instanceId, 0, "_m", []);
  await net.pass();
  assertEquals(log, ["m", "m", "m", "end"]);
});

test("Messenger closes a connection on which the sender changes", async (net) => {
  const [a, b] = await net.pair();
  const seen: bigint[] = [];
  b.handleOneWay("_m", (_payload, origin) => void seen.push(origin.workerId));
  const raw = net.network.transport({ name: "liar" });
  const closed: string[] = [];
  await raw.start({
    onFrame() {},
    onReadEnd() {},
    onInboundClosed() {},
    onLaneLost: (_peer, _lane, reason) => void closed.push(reason),
    onShuttingDown() {},
  });
  raw.register("b", new TextEncoder().encode("memory://node-2"));
  const header = new Uint8Array([1, 0, ...new Array<number>(16).fill(9), 2, 0, 0x5f, 0x6d, 0, 0]);
  raw.send("b", 0, 0, header, []);
  new DataView(header.buffer).setBigUint64(2, a.workerId, true);
  raw.send("b", 0, 0, header, []);
  raw.send("b", 0, 0, header, []);
  await net.pass();
  assertEquals([seen, closed, b.stats.dispatchFailures], [
    [0x0909090909090909n],
    ["the sender of this connection changed"],
    { sender_changed: 1 },
  ]);
  await net.run(raw.shutdown(10));
});

test("Messenger drops malformed messages and answers without hurting the connection", async (net) => {
  const [a, b] = await net.pair();
  let count = 0;
  b.handleOneWay("_m", () => void count++);
  const raw = net.network.transport({ name: "raw" });
  await raw.start({
    onFrame() {},
    onReadEnd() {},
    onInboundClosed() {},
    onLaneLost() {},
    onShuttingDown() {},
  });
  raw.register("b", new TextEncoder().encode("memory://node-2"));
  const good = new Uint8Array([1, 0, ...new Array<number>(16).fill(9), 2, 0, 0x5f, 0x6d, 0, 0]);
  const bad = good.slice();
  bad[18] = 99;
  for (const type of [0, 1, 2, 3, 4] as const) raw.send("b", 0, type, new Uint8Array(3), []);
  raw.send("b", 0, 0, bad, []);
  raw.send("b", 0, 0, good, []);
  await net.pass();
  assertEquals(count, 1);
  assertEquals(b.stats.dispatchFailures, { active_message: 2, response: 1, ack: 2 });
  assert(a.peerCount === 1);
  await net.run(raw.shutdown(10));
});

test("Messenger refuses more requests than it may have in flight", async (net) => {
  const [a, b] = [await net.node(), await net.node({ maxInFlight: 4 })];
  a.registerPeer(b.peerInfo);
  b.registerPeer(a.peerInfo);
  const gate = Promise.withResolvers<void>();
  b.handleJson("_wait", () => gate.promise);
  const calls = [1, 2, 3].map(() => a.requestJson(b.instanceId, "_wait", null, 1_000));
  assertEquals(await codeOf(net, calls[2]!), "remote: too many requests");
  gate.resolve();
  assertEquals(await net.run(Promise.all(calls.slice(0, 2))), [null, null]);
});

test("Messenger takes only addresses it has a transport for, and each handler name once", async (net) => {
  const a = await net.node();
  const info = { instanceId: newInstanceId(), workerAddress: new Uint8Array([0x81, 0xa1, 0x78, 0x91, 1]) };
  const error = assertThrows(() => a.registerPeer(info), TokenplaneError, '("x")');
  assertEquals((error as TokenplaneError).code, "invalid_request");
  a.handleJson("x", () => 1);
  assertThrows(() => a.handleOneWay("x", () => {}), TokenplaneError, "taken");
});

test("Messenger makes room for new peers among those that are not connected", async (net) => {
  const hub = await net.node({ maxPeers: 2 });
  const others: Messenger[] = [];
  for (let i = 0; i < 4; i++) others.push(await net.node());
  const join = (i: number): Promise<unknown> => {
    const other = others[i]!;
    other.registerPeer(hub.peerInfo);
    return net.run(
      other.requestJson(hub.instanceId, "_hello", { peer_info: peerInfoToJson(other.peerInfo) }, 500),
    );
  };
  hub.handleOneWay("_m", () => {});
  await join(0);
  others[0]!.sendOneWay(hub.instanceId, 0, "_m", []);
  await net.pass();
  await join(1);
  await others[1]!.shutdown(0);
  await join(2);
  assertEquals(others.map((other) => hub.peer(other.instanceId) !== undefined), [true, false, true, false]);
  others[2]!.sendOneWay(hub.instanceId, 0, "_m", []);
  await net.pass();
  await assertRejects(() => join(3), TokenplaneError);
  assertEquals(hub.peerCount, 2);
});
