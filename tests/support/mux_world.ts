/** A frontend and a worker on a `MuxNet`, with the steps that mux tests share. */
import { assertEquals } from "@std/assert";
import type { MuxAnchor } from "../../src/mux/anchor.ts";
import type { MuxOptions } from "../../src/mux/options.ts";
import type { Sender } from "../../src/stream.ts";
import { MuxNet, type NetNode, type NetOptions } from "./mux_net.ts";
import { RecordingConsumer } from "./recording_consumer.ts";
import { VirtualClock } from "./virtual_clock.ts";

const encoder = new TextEncoder();

/** One stream and both its ends. */
export interface WorldStream {
  readonly sender: Sender;
  readonly consumer: RecordingConsumer;
  readonly anchor: MuxAnchor;
}

/** A net of two. */
export class FakeWorld {
  readonly clock = new VirtualClock();
  readonly net: MuxNet;
  readonly front: NetNode;
  readonly worker: NetNode;

  constructor(options: Partial<MuxOptions> = {}, net: NetOptions = {}) {
    this.net = new MuxNet(this.clock, net);
    this.front = this.net.add("front", { lanes: 1, ...options });
    this.worker = this.net.add("worker", { lanes: 1, ...options });
  }

  bytes(text: string): Uint8Array {
    return encoder.encode(text);
  }

  /** Registers a stream at the frontend and opens it at the worker. */
  stream(): WorldStream {
    const consumer = new RecordingConsumer();
    const anchor = this.front.mux.register(consumer, this.worker.id);
    consumer.anchor = anchor;
    return { consumer, anchor, sender: this.worker.mux.open(this.front.id, anchor.ticket) };
  }

  /** Nothing of a finished stream is left anywhere. */
  assertQuiet(): void {
    for (const { mux } of [this.front, this.worker]) {
      const { stats } = mux;
      assertEquals(
        {
          anchors: stats.liveAnchors,
          ingress: stats.liveIngressSlots,
          egress: stats.liveEgressSlots,
          held: stats.heldRecords,
          withheld: stats.withheldRecords,
          staged: stats.stagedRecords,
          stalls: stats.readerStalls,
        },
        { anchors: 0, ingress: 0, egress: 0, held: 0, withheld: 0, staged: 0, stalls: 0 },
      );
    }
    assertEquals(this.net.errors, []);
  }
}
