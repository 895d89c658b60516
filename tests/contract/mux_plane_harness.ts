/** Nodes of the mux plane over any transport; what differs between transports is told by the caller. */
import type { Clock } from "../../src/clock.ts";
import { Messenger } from "../../src/messenger/messenger.ts";
import type { MuxOptions } from "../../src/mux/options.ts";
import { MuxPlane } from "../../src/plane/mux_plane.ts";
import type { Transport } from "../../transports/contract.ts";
import type { PlaneHarness, PlaneNode, PlaneNodeOptions } from "./plane_harness.ts";

/** A node with what the harness needs of it. */
export interface MuxPlaneNode<T extends Transport> extends PlaneNode {
  readonly plane: MuxPlane;
  readonly transport: T;
}

/** What a transport brings along. */
export interface MuxPlaneParts<T extends Transport> {
  readonly clock: Clock;
  readonly mux: Partial<MuxOptions>;
  readonly transport: () => T;
  readonly cut: (from: MuxPlaneNode<T>, to: MuxPlaneNode<T>) => void;
  readonly kill: (node: MuxPlaneNode<T>) => void;
  readonly partition?: (a: MuxPlaneNode<T>, b: MuxPlaneNode<T>) => () => void;
  readonly until: PlaneHarness["until"];
  readonly run: PlaneHarness["run"];
  readonly linger: PlaneHarness["linger"];
}

/** A harness for `testPlane`. Its `close` throws what a consumer or producer of the test threw. */
export function newMuxPlaneHarness<T extends Transport>(parts: MuxPlaneParts<T>): PlaneHarness {
  const nodes: MuxPlaneNode<T>[] = [];
  const failures: unknown[] = [];
  const own = (node: PlaneNode) => node as MuxPlaneNode<T>;
  const { partition } = parts;
  return {
    async node(options = {}) {
      const transport = parts.transport();
      const messenger = new Messenger({ transports: [transport], clock: parts.clock });
      const plane = new MuxPlane(messenger, { ...parts.mux, ...toMuxOptions(options) }, parts.clock, {
        onConsumerError: (error) => failures.push(error),
      });
      await messenger.start();
      const node = { messenger, plane, transport };
      nodes.push(node);
      return node;
    },
    cut: (from, to) => parts.cut(own(from), own(to)),
    kill(node) {
      parts.kill(own(node));
      own(node).plane.close();
    },
    ...(partition === undefined ? {} : { partition: (a, b) => partition(own(a), own(b)) }),
    leftovers: (node) => leftovers(own(node).plane),
    until: parts.until,
    run: parts.run,
    linger: parts.linger,
    async close() {
      for (const { plane } of nodes) plane.close();
      await parts.run(Promise.all(nodes.map(({ messenger }) => messenger.shutdown(1_000))));
      if (failures.length > 0) throw failures[0];
    },
  };
}

function toMuxOptions(options: PlaneNodeOptions): Partial<MuxOptions> {
  return {
    ...(options.window === undefined ? {} : { initialCredit: options.window }),
    ...(options.manualFlush === true ? { flush: { kind: "manual" } } : {}),
    ...(options.acceptTimeoutMs === undefined ? {} : { acceptTimeoutMs: options.acceptTimeoutMs }),
  };
}

function leftovers({ mux, stats }: MuxPlane): Record<string, number> {
  const gauges = {
    anchors: stats.liveAnchors,
    ingress: stats.liveIngressSlots,
    egress: stats.liveEgressSlots,
    held: stats.heldRecords,
    withheld: stats.withheldRecords,
    staged: stats.stagedRecords,
    bytes: mux.bytesHeld,
    stalls: stats.readerStalls,
    malformed: stats.malformedBatches,
  };
  return Object.fromEntries(Object.entries(gauges).filter(([, value]) => value !== 0));
}
