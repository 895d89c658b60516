/** The mux plane over real TCP connections on loopback. */
import { delay } from "@std/async";
import { systemClock } from "../../src/clock.ts";
import type { MuxOptions } from "../../src/mux/options.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { CuttableSockets } from "../support/cuttable_sockets.ts";
import { until } from "../support/until.ts";
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
    until: (condition, what) => until(condition, what, 10_000),
    run: (promise) => promise,
    linger: () => delay(20),
  });
}
