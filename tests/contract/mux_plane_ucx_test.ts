/** The mux plane over UCX. */
import { systemClock } from "../../src/clock.ts";
import { UcsStatus } from "../../transports/ucx/status.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { UCX_COMPONENT, whyNoUcx, withEnv } from "../ucx/support.ts";
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
    until,
    run: (promise) => promise,
    linger: () => pass(20),
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
