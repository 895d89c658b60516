/**
 * One stream of a simulation and both its ends: a producer that numbers its items, a consumer that checks them, and
 * what the schedule has done to it. Every item carries its stream's id and its own index.
 */
import type { EgressStream } from "../../src/mux/egress_stream.ts";
import type { MuxAnchor } from "../../src/mux/anchor.ts";
import type { SenderEnd, StreamConsumer, StreamEnd } from "../../src/stream.ts";
import type { NetNode } from "../support/mux_net.ts";

/** How a consumer takes items. */
export type ConsumerKind = "eager" | "slow" | "blocked" | "throws";
/** How a producer ended its stream. */
export type Finish = "open" | "finalized" | "failed" | "dropped";

const HEADER_BYTES = 8;

/** An item of a stream: id, index, filler that follows from both. */
export function makeItem(id: number, index: number, size: number): Uint8Array {
  const bytes = new Uint8Array(Math.max(HEADER_BYTES, size));
  const view = new DataView(bytes.buffer);
  view.setUint32(0, id);
  view.setUint32(4, index);
  for (let i = HEADER_BYTES; i < bytes.length; i++) bytes[i] = id * 31 + index * 7 + i;
  return bytes;
}

/** State and judge of one stream. Faults go to `fail`. */
export class SimStream implements StreamConsumer {
  readonly id: number;
  readonly front: NetNode;
  readonly worker: NetNode;
  readonly fail: (what: string) => void;
  readonly kind: ConsumerKind;
  /** A hostile node is at one end: only the other end's own promises hold. */
  readonly hostile: boolean;
  anchor!: MuxAnchor;
  /** Null until its request has reached the worker. */
  sender: EgressStream | null = null;
  /** Items the producer handed over, withheld ones included. */
  sent = 0;
  /** Items the producer still means to send. */
  quota = 0;
  polite = true;
  finish: Finish = "open";
  wantedFinish: Finish = "finalized";
  received = 0;
  readonly ends: StreamEnd[] = [];
  readonly senderEnds: SenderEnd[] = [];
  cancelled = false;
  /** A cut, a kill or a long stall may have ended it. */
  touched = false;
  /** Items after which a slow consumer pauses, a throwing one throws, and any one cancels. */
  readonly throwAt: number;
  readonly pauseEvery: number;
  readonly cancelAt: number;
  /** Everyone takes everything now. */
  draining = false;

  constructor(
    id: number,
    front: NetNode,
    worker: NetNode,
    hostile: boolean,
    fail: (what: string) => void,
    kind: ConsumerKind,
    limits: { throwAt: number; pauseEvery: number; cancelAt: number },
  ) {
    this.id = id;
    this.front = front;
    this.worker = worker;
    this.hostile = hostile;
    this.fail = (what) => fail(`stream ${id}: ${what}`);
    this.kind = kind;
    this.throwAt = limits.throwAt;
    this.pauseEvery = limits.pauseEvery;
    this.cancelAt = limits.cancelAt;
  }

  /** Whether nothing more will be heard of it at the frontend. */
  get over(): boolean {
    return this.ends.length > 0 || this.cancelled;
  }

  /** Sends up to `n` items of the quota; a polite producer stops at the first that has to wait. */
  pump(n: number, sizeOf: () => number): void {
    const { sender } = this;
    if (sender === null || this.finish !== "open") return;
    for (let i = 0; i < n && this.quota > 0 && sender.ended === null; i++) {
      const size = sizeOf();
      const index = this.sent;
      this.quota--;
      const now = index % 5 === 4
        ? sender.sendNote(`${this.id}:${index}`)
        : sender.sendData(makeItem(this.id, index, size));
      if (sender.ended === null) this.sent++;
      if (!now && this.polite) return;
    }
  }

  /** Ends it from the producer's side. */
  end(how: Finish): void {
    const { sender } = this;
    if (sender === null || sender.ended !== null || this.finish !== "open") return;
    this.finish = how;
    if (how === "finalized") sender.finalize();
    else if (how === "failed") sender.fail(`stream ${this.id} failed`);
    else sender.drop();
  }

  cancel(): void {
    if (this.over) return;
    this.cancelled = true;
    this.anchor.cancel("simulated");
  }

  onData(bytes: Uint8Array, start: number, end: number): void {
    if (!this.hostile) {
      const wanted = makeItem(this.id, this.received, end - start);
      for (let i = 0; i < wanted.length; i++) {
        if (bytes[start + i] !== wanted[i]) {
          const view = new DataView(bytes.buffer, bytes.byteOffset + start, end - start);
          this.fail(`item ${this.received} is item ${view.getUint32(4)} of stream ${view.getUint32(0)}`);
          break;
        }
      }
    }
    this.#took();
  }

  onNote(text: string): void {
    if (!this.hostile && text !== `${this.id}:${this.received}`) {
      this.fail(`note ${this.received} reads "${text}"`);
    }
    this.#took();
  }

  onEnd(end: StreamEnd): void {
    if (this.cancelled) this.fail(`ended (${end.kind}) after its consumer had cancelled`);
    this.ends.push(end);
  }

  #took(): void {
    if (this.over) this.fail(`item ${this.received} came after its end`);
    this.received++;
    if (this.draining) return;
    if (this.received === this.cancelAt) return this.cancel();
    if (this.received === this.throwAt && this.kind === "throws") {
      this.cancelled = true; // a consumer that throws is cancelled
      throw new Error("Simulated consumer failure");
    }
    if (this.kind === "blocked" || (this.kind === "slow" && this.received % this.pauseEvery === 0)) {
      this.anchor.pause();
    }
  }
}
