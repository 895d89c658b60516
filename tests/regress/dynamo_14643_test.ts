/**
 * ai-dynamo/dynamo#14643: without no-delay a small write waits for the acknowledgement of the one before, 40 ms when
 * the receiver delays it. Both ends of every connection must have no-delay set.
 */
import { assert, assertEquals } from "@std/assert";
import { type Socket, type SocketSource, systemSockets } from "../../transports/tcp/socket.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { RecordingSink } from "../contract/transport_harness.ts";

/** Real sockets that keep what was set on them. */
class WatchedSockets implements SocketSource {
  readonly settings: string[] = [];

  async connect(hostname: string, port: number, signal: AbortSignal): Promise<Socket> {
    return this.#watch("dialled", await systemSockets.connect(hostname, port, signal));
  }

  listen(hostname: string, port: number): ReturnType<SocketSource["listen"]> {
    const listener = systemSockets.listen(hostname, port);
    return {
      addr: listener.addr,
      close: () => listener.close(),
      accept: async () => this.#watch("accepted", await listener.accept()),
    };
  }

  #watch(end: string, socket: Socket): Socket {
    return {
      remoteAddr: socket.remoteAddr,
      read: (into) => socket.read(into),
      write: (bytes) => socket.write(bytes),
      closeWrite: () => socket.closeWrite(),
      close: () => socket.close(),
      setNoDelay: (on) => {
        this.settings.push(`${end} no-delay ${on}`);
        socket.setNoDelay(on);
      },
      setKeepAlive: (on) => {
        this.settings.push(`${end} keep-alive ${on}`);
        socket.setKeepAlive(on);
      },
    };
  }
}

Deno.test("TcpTransport sets no-delay and keep-alive at both ends, and small frames do not wait", async () => {
  const sockets = new WatchedSockets();
  const [a, b] = [new TcpTransport({ sockets }), new TcpTransport({ sockets })];
  const gaps: number[] = [];
  const done = Promise.withResolvers<void>();
  let last = 0;
  const sink = new RecordingSink();
  sink.onFrame = () => {
    const now = performance.now();
    if (last > 0) gaps.push(now - last);
    last = now;
    if (gaps.length === 40) done.resolve();
  };
  await a.start(new RecordingSink());
  await b.start(sink);
  a.register("peer", b.addressEntry());
  const timer = setInterval(() => a.send("peer", 0, 0, new Uint8Array(1), [new Uint8Array(20)]), 2);
  await done.promise;
  clearInterval(timer);
  gaps.sort((x, y) => x - y);
  assert(gaps[20]! < 20, `median gap ${gaps[20]} ms`);
  assertEquals(sockets.settings.toSorted(), [
    "accepted keep-alive true",
    "accepted no-delay true",
    "dialled keep-alive true",
    "dialled no-delay true",
  ]);
  await Promise.all([a.shutdown(500), b.shutdown(500)]);
});
