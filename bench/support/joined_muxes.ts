/** Muxes without a network: batches go straight from one to the other, so that only the mux is measured. */
import type { Admission } from "../../transports/contract.ts";
import type { MuxLink } from "../../src/mux/link.ts";
import { Mux } from "../../src/mux/mux.ts";
import type { MuxOptions } from "../../src/mux/options.ts";
import type { StreamConsumer } from "../../src/stream.ts";
import { VirtualClock } from "../../tests/support/virtual_clock.ts";

const COPY_BYTES = 1_048_576;

/** A link that does with each batch what `deliver` says, and admits it at once. */
export function directLink(deliver: (parts: readonly Uint8Array[]) => void): MuxLink {
  return {
    sendBatch: (_peer: string, _lane: number, parts: readonly Uint8Array[], _admission: Admission) => {
      deliver(parts);
      return true;
    },
    lanesTo: () => 1,
    eagerBudget: () => 262_109,
    sendStop: () => {},
    sendCancel: () => {},
    attach: () => Promise.reject(new Error("Cannot attach: there is no other side")),
  };
}

/** A mux of a benchmark. */
export function benchMux(
  clock: VirtualClock,
  link: MuxLink,
  id: string,
  options: Partial<MuxOptions> = {},
): Mux {
  const identity = { workerId: 7n, peerInfo: { instanceId: id, workerAddress: new Uint8Array([0x80]) } };
  return new Mux(clock, link, identity, { lanes: 1, ...options });
}

/** A consumer that counts. */
export class CountingConsumer implements StreamConsumer {
  items = 0;
  bytes = 0;
  ends = 0;

  onData(_bytes: Uint8Array, start: number, end: number): void {
    this.items++;
    this.bytes += end - start;
  }

  onNote(_text: string): void {
    this.items++;
  }

  onEnd(): void {
    this.ends++;
  }
}

/** A frontend and a worker whose batches are copied once, as a transport does, and handled at the next `settle`. */
export class JoinedMuxes {
  readonly clock = new VirtualClock();
  readonly front: Mux;
  readonly worker: Mux;
  readonly #copies: Uint8Array = new Uint8Array(COPY_BYTES);
  #used = 0;
  #queue: { readonly to: Mux; readonly from: string; readonly bytes: Uint8Array }[] = [];

  constructor(options: Partial<MuxOptions> = {}) {
    this.front = benchMux(
      this.clock,
      directLink((parts) => this.#post(this.worker, "front", parts)),
      "front",
      options,
    );
    this.worker = benchMux(
      this.clock,
      directLink((parts) => this.#post(this.front, "worker", parts)),
      "worker",
      options,
    );
  }

  /** Delivers everything that is on its way, and what that brings about. */
  settle(): void {
    this.clock.runDeferred();
    while (this.#queue.length > 0) {
      const queue = this.#queue;
      this.#queue = [];
      this.#used = 0;
      for (const { to, from, bytes } of queue) {
        to.handleBatch(from, 1, bytes);
        to.handleReadEnd();
      }
      this.clock.runDeferred();
    }
  }

  #post(to: Mux, from: string, parts: readonly Uint8Array[]): void {
    let size = 0;
    for (const part of parts) size += part.length;
    // Batches of one round live side by side; beyond that they get memory of their own.
    const bytes = this.#used + size <= COPY_BYTES
      ? this.#copies.subarray(this.#used, this.#used + size)
      : new Uint8Array(size);
    this.#used += size;
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    this.#queue.push({ to, from, bytes });
  }
}
