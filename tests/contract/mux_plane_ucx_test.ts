/** The mux plane over UCX. */
import { delay } from "@std/async";
import { systemClock } from "../../src/clock.ts";
import { UcsStatus } from "../../transports/ucx/status.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { UCX_COMPONENT, whyNoUcx, withEnv } from "../ucx/support.ts";
import { until } from "../support/until.ts";
import { newMuxPlaneHarness } from "./mux_plane_harness.ts";
import type { PlaneHarness } from "./plane_harness.ts";
import { testPlane } from "./plane_suite.ts";

const needs = { component: UCX_COMPONENT, isHere: whyNoUcx === null };

testPlane("MuxPlane over UCX, tcp,", () => newHarness("tcp"), needs);
testPlane("MuxPlane over UCX, shared memory,", () => newHarness("posix,sysv"), needs);

function newHarness(tls: string): PlaneHarness {
  class NodeTransport extends UcxTransport {
    override async start(sink: Parameters<UcxTransport["start"]>[0]): Promise<void> {
      await withEnv({ UCX_TLS: tls }, () => super.start(sink));
    }
  }

  return newMuxPlaneHarness<UcxTransport>({
    clock: systemClock,
    mux: { lanes: 1 },
    transport: () => new NodeTransport({ peerTimeoutMs: 600 }),
    // A broken connection carries nothing either way, and UCX reports it at both ends.
    cut: (from, to) => {
      breakEndpoint(from.transport, to.messenger.instanceId);
      breakEndpoint(to.transport, from.messenger.instanceId);
    },
    kill: (node) => void node.transport.shutdown(0),
    until: (condition, what) => until(condition, what, 10_000),
    run: (promise) => promise,
    linger: () => delay(20),
  });
}

/** As UCX reports it: the endpoint has failed, and the loop drops it. */
function breakEndpoint(transport: UcxTransport, peer: string): void {
  const { endpoints, loop } = transport.runtime!;
  for (const endpoint of endpoints.all()) {
    if (endpoint.peer === peer) endpoints.report(endpoint, UcsStatus.connectionReset);
  }
  loop.kick();
}
