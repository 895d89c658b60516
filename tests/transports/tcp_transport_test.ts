/** What is true of TCP beyond the contract that all transports share. */
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { decodeEndpoints } from "../../transports/tcp/endpoints.ts";
import { encodeFrame } from "../../transports/tcp/frame.ts";
import { type Socket, type SocketSource, systemSockets } from "../../transports/tcp/socket.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { RecordingSink } from "../contract/transport_harness.ts";
import { unhex } from "../support/hex.ts";
import { until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const EMPTY = new Uint8Array(0);

Deno.test("TcpTransport reads frames off a raw socket and closes it on the first bad byte", async () => {
  const transport = new TcpTransport();
  const sink = new RecordingSink();
  await transport.start(sink);
  const { hostname, port } = transport.address;
  const bad = ["0002 00 00000000 00000000", "0001 05 00000000 00000000", "0001 00 01000000 00000001"];
  for (const [i, text] of bad.entries()) {
    const conn = await Deno.connect({ hostname, port });
    await conn.write(new Uint8Array([...encodeFrame(3, EMPTY, new Uint8Array([i])), ...unhex(text)]));
    assertEquals(await conn.read(new Uint8Array(10)), null, "closed by the transport");
    conn.close();
  }
  assertEquals(sink.frames.map((frame) => frame.payload[0]), [0, 1, 2]);
  assertEquals([transport.stats.rejections, sink.closed.length], [{ decode_error: 3 }, 3]);
  const conn = await Deno.connect({ hostname, port });
  await conn.write(encodeFrame(3, EMPTY, EMPTY).subarray(0, 10));
  conn.close();
  await until(() => sink.closed.length === 4, "four closed connections", 5_000);
  assertEquals(transport.stats.rejections["cut_frame"], 1);
  await transport.shutdown(100);
});

Deno.test("TcpTransport loses its lane when the peer sends anything but refusals back", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const transport = new TcpTransport();
  const sink = new RecordingSink();
  await transport.start(sink);
  transport.register("peer", new TextEncoder().encode(`127.0.0.1:${listener.addr.port}`));
  for (
    const [back, refusals] of [[encodeFrame(4, new Uint8Array([7]), EMPTY), 1], [
      encodeFrame(1, EMPTY, EMPTY),
      1,
    ]] as const
  ) {
    transport.send("peer", 0, 0, EMPTY, []);
    const conn = await listener.accept();
    await conn.write(back);
    await until(() => sink.refused.length === refusals, `${refusals} refusals`, 5_000);
    if (back[2] === 4) conn.close();
    await until(() => sink.lost.length > 0, "a lost lane", 5_000);
    if (back[2] !== 4) conn.close();
    sink.lost.length = 0;
  }
  await transport.shutdown(100);
  listener.close();
});

Deno.test("TcpTransport gives up dialling after its timeout", async () => {
  const clock = new VirtualClock();
  const sockets: SocketSource = {
    listen: systemSockets.listen,
    connect: (_hostname, _port, signal) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted")))),
  };
  const transport = new TcpTransport({ clock, sockets });
  const sink = new RecordingSink();
  await transport.start(sink);
  transport.register("peer", new TextEncoder().encode("127.0.0.1:1"));
  transport.send("peer", 0, 0, EMPTY, []);
  await clock.advanceAsync(4_999);
  assertEquals(sink.lost.length, 0);
  await clock.advanceAsync(1);
  assertEquals(sink.lost.length, 1);
  assert(sink.lost[0]!.reason.includes("no answer within 5000 ms"), sink.lost[0]!.reason);
  const health = transport.checkHealth("peer", 300);
  health.catch(() => {});
  await clock.advanceAsync(300);
  assertEquals((await assertRejects(() => health, TokenplaneError)).code, "timeout");
  await transport.shutdown(0);
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("TcpTransport closes a socket that comes up after its lane was given up", async () => {
  const up = Promise.withResolvers<Socket>();
  let isClosed = false;
  const late = { close: () => void (isClosed = true) } as unknown as Socket;
  const transport = new TcpTransport({
    sockets: { listen: systemSockets.listen, connect: () => up.promise },
  });
  await transport.start(new RecordingSink());
  transport.register("peer", new TextEncoder().encode("127.0.0.1:1"));
  transport.send("peer", 0, 0, EMPTY, []);
  transport.unregister("peer");
  up.resolve(late);
  await up.promise;
  await Promise.resolve();
  assertEquals([isClosed, transport.stats.connections], [true, 0]);
  await transport.shutdown(0);
});

Deno.test("TcpTransport takes no more connections than it is told to", async () => {
  const transport = new TcpTransport({ maxInbound: 2 });
  await transport.start(new RecordingSink());
  const { hostname, port } = transport.address;
  const conns = [await Deno.connect({ hostname, port }), await Deno.connect({ hostname, port })];
  await until(() => transport.stats.connections === 2, "two connections", 5_000);
  const third = await Deno.connect({ hostname, port });
  assertEquals(await third.read(new Uint8Array(1)).catch(() => null), null);
  assertEquals(transport.stats.rejections, { too_many_connections: 1 });
  for (const conn of [...conns, third]) conn.close();
  await transport.shutdown(100);
});

Deno.test("TcpTransport cuts a peer off that does not read its refusals", async () => {
  const transport = new TcpTransport();
  const sink = new RecordingSink();
  await transport.start(sink);
  transport.beginDrain(() => false);
  const { hostname, port } = transport.address;
  const conn = await Deno.connect({ hostname, port });
  const frame = encodeFrame(0, new Uint8Array(60_000), EMPTY);
  let isCut = false;
  for (let i = 0; i < 2_000 && !isCut; i++) isCut = await conn.write(frame).then(() => false, () => true);
  await until(() => sink.closed.length === 1, "the closed connection", 5_000);
  assertEquals(sink.frames.length, 0);
  conn.close();
  await transport.shutdown(100);
});

Deno.test("TcpTransport says what is wrong with its settings", async () => {
  for (
    const options of [{ lanes: 0 }, { lanes: 65 }, { port: 70_000 }, { dialTimeoutMs: 0 }, {
      maxInbound: 1.5,
    }]
  ) {
    const error = assertThrows(() => new TcpTransport(options), TokenplaneError, "Cannot set");
    assertEquals((error as TokenplaneError).code, "invalid_config");
  }
  const first = new TcpTransport();
  await first.start(new RecordingSink());
  const second = new TcpTransport({ port: first.address.port });
  const error = await assertRejects(
    () => second.start(new RecordingSink()),
    TokenplaneError,
    "Cannot listen on",
  );
  assertEquals(error.code, "invalid_config");
  await first.shutdown(0);
  await second.shutdown(0);
});

Deno.test("TcpTransport advertises the address it was told to", async () => {
  const transport = new TcpTransport({ advertiseHost: "192.0.2.1" });
  await transport.start(new RecordingSink());
  assertEquals(decodeEndpoints(transport.addressEntry())[0]?.host, "192.0.2.1");
  assertEquals(decodeEndpoints(transport.addressEntry())[0]?.port, transport.address.port);
  await transport.shutdown(0);
});
