import { delay } from "@std/async";
import type { Transport } from "../../transports/contract.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { PausableSockets } from "../support/pausable_sockets.ts";
import { until } from "../support/until.ts";
import type { TransportHarness } from "./transport_harness.ts";
import { testTransport } from "./transport_suite.ts";

testTransport("Tcp", newTcpHarness);

function newTcpHarness(): TransportHarness {
  const sockets = new Map<Transport, PausableSockets>();
  return {
    transport: (options = {}) => {
      const source = new PausableSockets();
      const transport = new TcpTransport({
        lanes: options.lanes ?? 4,
        queue: { maxFrames: options.queueFrames ?? 256, maxBytes: 1_048_576 },
        sockets: source,
        ...(options.onBug === undefined ? {} : { onBug: options.onBug }),
      });
      sockets.set(transport, source);
      return transport;
    },
    deadEntry: () => {
      const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const { port } = listener.addr;
      listener.close();
      return new TextEncoder().encode(`tcp://127.0.0.1:${port}`);
    },
    // Connections of one transport are numbered in order of acceptance, and so are their sockets.
    pause: (at, from) => sockets.get(at)!.pause(from.id),
    until: (condition, what) => until(condition, what, 10_000),
    run: (promise) => promise,
    linger: () => delay(20),
  };
}
