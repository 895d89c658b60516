/** The contract suite over UCX, once on TCP and once on shared memory. */
import { delay } from "@std/async";
import { MAX_FRAME_BYTES, type Transport } from "../../transports/contract.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { RecordingSink, UCX_COMPONENT, whyNoUcx, withEnv } from "../ucx/support.ts";
import { until } from "../support/until.ts";
import type { TransportHarness } from "./transport_harness.ts";
import { testTransport } from "./transport_suite.ts";

const ONE_LANE = "a second lane, which UCX has none of,";

const WITHOUT_LANES = {
  "dials a lost lane again and leaves the others alone": ONE_LANE,
  "keeps lanes independent of one another": ONE_LANE,
};

const needs = { component: UCX_COMPONENT, isHere: whyNoUcx === null };

const WITHOUT_SOCKETS = {
  "reads on while its own sends cannot leave": "a socket that takes in what a paused node sends",
};

for (
  const [name, tls, without] of [
    ["Ucx, tcp,", "tcp", {}],
    ["Ucx, shared memory,", "posix,sysv", WITHOUT_SOCKETS],
  ] as const
) {
  const dead = needs.isHere ? await deadEntry(tls) : new Uint8Array(0);
  testTransport(name, () => newUcxHarness(tls, dead), { needs, without: { ...WITHOUT_LANES, ...without } });
}

/** Nodes that know each other both ways, as the messenger has them: the end of a sender is only seen then. */
function newUcxHarness(tls: string, dead: Uint8Array): TransportHarness {
  const byEntry = new Map<string, UcxTransport>();

  class MutualTransport extends UcxTransport {
    override async start(sink: Parameters<UcxTransport["start"]>[0]): Promise<void> {
      await withEnv({ UCX_TLS: tls }, () => super.start(sink));
      byEntry.set(super.addressEntry().join(), this);
    }
    override register(peer: string, entry: Uint8Array): void {
      super.register(peer, entry);
      const other = byEntry.get(entry.join());
      if (other === undefined || other === this) return;
      const back = `back-${byEntry.size}-${this.addressEntry().join()}`;
      UcxTransport.prototype.register.call(other, back, this.addressEntry());
      other.checkHealth(back, 5_000).catch(() => {});
    }
  }

  return {
    transport: (options = {}) =>
      new MutualTransport({
        eagerMax: MAX_FRAME_BYTES,
        outstanding: { maxFrames: options.queueFrames ?? 256, maxBytes: 1_048_576 },
        dialTimeoutMs: 1_000,
        peerTimeoutMs: 400,
        ...(options.onBug === undefined ? {} : { onBug: options.onBug }),
      }),
    deadEntry: () => dead,
    pause: (at: Transport) => (at as UcxTransport).runtime!.loop.pause(),
    until: (condition, what) => until(condition, what, 10_000),
    run: (promise) => promise,
    linger: () => delay(20),
  };
}

/** Where a node was that has shut down. */
async function deadEntry(tls: string): Promise<Uint8Array> {
  const transport = new UcxTransport();
  await withEnv({ UCX_TLS: tls }, () => transport.start(new RecordingSink()));
  const entry = transport.addressEntry();
  await transport.shutdown(100);
  return entry;
}
