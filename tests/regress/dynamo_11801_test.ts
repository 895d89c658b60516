/**
 * ai-dynamo/dynamo#11801: out of file descriptors, `accept` fails at once and the accept loop spins. It must back off,
 * count, and accept again when descriptors are there.
 */
import { assertEquals } from "@std/assert";
import type { Socket, SocketListener } from "../../transports/tcp/socket.ts";
import { systemSockets } from "../../transports/tcp/socket.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { RecordingSink } from "../contract/transport_harness.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

Deno.test("TcpTransport backs off when accepting fails, counts, and recovers", async () => {
  const clock = new VirtualClock();
  let failures = 7;
  let closed: ((error: Error) => void) | null = null;
  const tries: number[] = [];
  const accepted = {
    remoteAddr: { hostname: "127.0.0.1", port: 1 },
    read: () => Promise.resolve(null),
    close() {},
  };
  const listener: SocketListener = {
    addr: { hostname: "127.0.0.1", port: 1 },
    close: () => closed?.(new Error("closed")),
    accept: () => {
      tries.push(clock.now());
      if (failures-- > 0) return Promise.reject(new Error("Too many open files (os error 24)"));
      if (failures === -1) return Promise.resolve(accepted as unknown as Socket);
      return new Promise((_, reject) => {
        closed = reject;
      });
    },
  };
  const transport = new TcpTransport({
    clock,
    sockets: { connect: systemSockets.connect, listen: () => listener },
  });
  const sink = new RecordingSink();
  await transport.start(sink);
  await clock.advanceAsync(10_000);
  assertEquals(tries, [0, 10, 30, 70, 150, 310, 630, 1_270, 1_270]);
  assertEquals([transport.stats.acceptFailures, sink.closed.length], [7, 1]);
  await transport.shutdown(0);
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("TcpTransport ends its accept loop although it is backing off", async () => {
  const clock = new VirtualClock();
  const listener: SocketListener = {
    addr: { hostname: "127.0.0.1", port: 1 },
    close() {},
    accept: () => Promise.reject(new Error("Too many open files (os error 24)")),
  };
  const transport = new TcpTransport({
    clock,
    sockets: { connect: systemSockets.connect, listen: () => listener },
  });
  await transport.start(new RecordingSink());
  await clock.advanceAsync(5);
  await transport.shutdown(0);
  assertEquals(clock.pendingTimers, 0);
});
