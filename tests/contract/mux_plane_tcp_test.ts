/** The mux plane over real TCP connections on loopback. */
import { systemClock } from "../../src/clock.ts";
import type { MuxOptions } from "../../src/mux/options.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { CuttableSockets } from "../support/cuttable_sockets.ts";
import { newMuxPlaneHarness } from "./mux_plane_harness.ts";
import type { PlaneHarness } from "./plane_harness.ts";
import { testPlane } from "./plane_suite.ts";

testPlane("MuxPlane over TCP", () => newHarness());
testPlane("MuxPlane over TCP, attaching,", () => newHarness({ streamSetup: "attach" }));

function newHarness(mux: Partial<MuxOptions> = {}): PlaneHarness {
  const sockets = new Map<TcpTransport, CuttableSockets>();
  return newMuxPlaneHarness<TcpTransport>({
    clock: systemClock,
    mux,
    transport: () => {
      const source = new CuttableSockets();
      const transport = new TcpTransport({ sockets: source, lanes: mux.lanes ?? 4 });
      sockets.set(transport, source);
      return transport;
    },
    cut: (from, to) => {
      sockets.get(from.transport)!.cut(to.transport.address.port);
    },
    kill: (node) => void node.transport.shutdown(0),
    until,
    run: (promise) => promise,
    linger: () => pass(20),
  });
}

function pass(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

async function until(condition: () => boolean, what: string): Promise<void> {
  const end = systemClock.now() + 10_000;
  while (!condition()) {
    if (systemClock.now() > end) throw new Error(`Waited in vain for ${what}`);
    await pass(1);
  }
}
