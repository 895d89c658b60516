/**
 * The producing end of one stream, on one slot of one lane.
 *
 * A record goes straight into the open batch while there is credit and room; otherwise it waits here, in order, under
 * the slot's byte budget. What waits leaves in `release`, which a grant, an admission or the end of a fence calls.
 */
import type { InstanceId } from "../../transports/contract.ts";
import type { Handle, Sender, SenderEnd } from "../stream.ts";
import type { Batcher } from "./batcher.ts";
import type { MuxContext } from "./context.ts";
import { EgressCredit } from "./credit.ts";
import type { DeadlineEntry, DeadlineLane } from "./deadlines.ts";
import { Staged } from "./staged.ts";
import {
  encodeTransportError,
  FINALIZED,
  HEARTBEAT,
  itemHeaderBytes,
  type ItemKind,
  writeItemHeader,
} from "./wire/stream_frame.ts";
import { WithheldQueue } from "./withheld_queue.ts";

const encoder = new TextEncoder();

/** What a stream is opened with. */
export interface EgressStreamInit {
  readonly peer: InstanceId;
  readonly handle: Handle;
  readonly sessionId: bigint;
  /** This side's own number for the stream, for `_stream_cancel`. */
  readonly streamId: bigint;
  readonly byteBudget: number;
  /** Beats cost no credit (the peer said so). */
  readonly freeBeats: boolean;
}

/** One sender. `slot`, `seq`, `fenced` and `stagedIn` are written by the batcher. */
export class EgressStream implements Sender {
  // What every record touches comes first, to lie together: it is cold each time, as in `IngressSlot`.
  slot = -1;
  seq = 0;
  /** Which fill of the open batch took its last record. */
  stagedIn = -1;
  #ended: SenderEnd | null = null;
  /** The frame that will end the stream once all before it has gone; DROP for an end without a terminal. */
  #terminal: Uint8Array | null = null;
  #credit: EgressCredit | null = null;
  #batcher: Batcher | null = null;
  #withheld: WithheldQueue | null = null;
  fenced = false;
  #sentFirst = false;
  #quiet = true;
  #wantsWritable = false;

  readonly peer: InstanceId;
  readonly handle: Handle;
  readonly streamId: bigint;
  sessionId: bigint;
  onWritable: (() => void) | null = null;
  onEnded: ((why: SenderEnd) => void) | null = null;
  readonly #context: MuxContext;
  readonly #byteBudget: number;
  readonly #freeBeats: boolean;
  /** What `ended` will say once the terminal has gone. */
  #why: SenderEnd = "finished";
  #starved = false;
  #congested = false;
  #beatLane: DeadlineLane<EgressStream> | null = null;
  #beat: DeadlineEntry<EgressStream> | null = null;

  constructor(context: MuxContext, init: EgressStreamInit) {
    this.#context = context;
    this.peer = init.peer;
    this.handle = init.handle;
    this.sessionId = init.sessionId;
    this.streamId = init.streamId;
    this.#byteBudget = init.byteBudget;
    this.#freeBeats = init.freeBeats;
  }

  get ended(): SenderEnd | null {
    return this.#ended;
  }

  get writable(): boolean {
    return this.#canSend() && this.#credit!.data > 0;
  }

  /** Data records it may send before the next grant. */
  get credit(): number {
    return this.#credit === null ? 0 : this.#credit.data;
  }

  /** The lane it is on, for good; -1 while it has none. */
  get lane(): number {
    return this.#batcher === null ? -1 : this.#batcher.lane;
  }

  get withheldRecords(): number {
    return this.#withheld === null ? 0 : this.#withheld.length;
  }

  /** Called once: the stream has a lane and a window, and takes a slot. What has waited for that goes out. */
  bind(batcher: Batcher, initialCredit: number, beats: DeadlineLane<EgressStream>): void {
    if (this.#ended !== null) return;
    this.#batcher = batcher;
    this.#credit = new EgressCredit(initialCredit);
    this.#beatLane = beats;
    this.#beat = beats.arm(this);
    this.release();
  }

  sendData(bytes: Uint8Array): boolean {
    return this.#send("data", bytes);
  }

  sendNote(text: string): boolean {
    return this.#send("text", encoder.encode(text));
  }

  finalize(): void {
    this.#finish(FINALIZED);
  }

  fail(message: string): void {
    this.#finish(encodeTransportError(message));
  }

  drop(): void {
    this.#finish(DROP);
  }

  /** Whether the record just staged is the stream's first, which never waits for a linger. */
  takeUrgency(): boolean {
    this.#quiet = false;
    if (this.#sentFirst) return false;
    this.#sentFirst = true;
    return true;
  }

  /** Credit from the receiver. */
  grant(delta: number): void {
    if (this.#credit === null) return;
    this.#credit.grant(delta);
    this.release();
  }

  /** Sends what has waited, as far as credit and room go, and tells the producer when it may go on. */
  release(): void {
    if (this.#ended !== null || this.#batcher === null) return;
    if (this.slot < 0) {
      if (!this.#batcher.open(this)) this.end("rejected");
      if (this.slot < 0) return;
    }
    if (this.#releaseWithheld() && this.#terminal !== null) this.#sendTerminal();
    if (this.#wantsWritable && this.writable) {
      this.#wantsWritable = false;
      this.#starved = false;
      try {
        this.onWritable?.();
      } catch (error) {
        this.#context.callbackFailed(error);
        this.drop();
      }
    }
  }

  /** The lane has room again, for which this stream has waited. */
  hasRoom(): void {
    this.#congested = false;
    this.release();
  }

  /** Its credit can no longer come: ends the stream and lets the consumer know. */
  abandon(): void {
    if (this.#ended === null) this.#giveUp("peer_lost");
  }

  /** Ends the stream for a reason that is not this side's terminal. The peer is told nothing. */
  end(why: SenderEnd): void {
    if (this.#ended !== null) return;
    this.#settle(why);
    try {
      this.onEnded?.(why);
    } catch (error) {
      this.#context.callbackFailed(error);
    }
  }

  /** Has `hasRoom` called when the lane has room again. */
  waitForRoom(): void {
    if (this.#congested) return;
    this.#congested = true;
    this.#batcher!.addCongested(this);
  }

  /** The heartbeat interval has passed. */
  beat(): void {
    if (this.#ended !== null) return;
    this.#beatLane!.rearm(this.#beat!);
    if (!this.#quiet) {
      this.#quiet = true;
      return;
    }
    if (this.slot < 0 || this.fenced) return;
    if (this.#freeBeats) {
      this.#batcher!.stageBeat(this);
    } else if (this.writable) {
      // A peer of the older wire knows beats only as data. Without credit there is none, and it exempts such a stream.
      if (this.#batcher!.stageFrame(this, HEARTBEAT, true) !== Staged.noRoom) this.#credit!.spendData();
    }
  }

  #canSend(): boolean {
    return this.#ended === null && this.#terminal === null && this.slot >= 0 && !this.fenced &&
      (this.#withheld === null || this.#withheld.length === 0);
  }

  #send(kind: ItemKind, bytes: Uint8Array): boolean {
    if (this.#ended !== null || this.#terminal !== null) return false;
    if (this.#canSend()) {
      const credit = this.#credit!;
      if (credit.data > 0) {
        if (this.#batcher!.stageItem(this, kind, bytes) !== Staged.noRoom) {
          credit.spendData();
          return true;
        }
        this.waitForRoom();
      } else if (!this.#starved) {
        this.#starved = true;
        this.#context.stats.creditExhausted++;
      }
    }
    this.#context.stats.producerWaits++;
    this.#withhold(kind, bytes);
    this.#wantsWritable = true;
    return false;
  }

  #withhold(kind: ItemKind, bytes: Uint8Array): void {
    const head = itemHeaderBytes(kind, bytes.length);
    const frame = new Uint8Array(head + bytes.length);
    frame.set(bytes, writeItemHeader(frame, 0, kind, bytes.length));
    const queue = this.#withheld ??= new WithheldQueue();
    if (!queue.hasRoom(frame.length, this.#byteBudget)) {
      this.#overflow();
      return;
    }
    queue.push(frame);
    this.#context.stats.withheldRecords++;
  }

  /** The producer ran ahead of its consumer by more than the budget: this stream ends, no other notices. */
  #overflow(): void {
    this.#context.stats.dropped.withheld_overflow += this.withheldRecords + 1;
    this.#giveUp("overflow");
  }

  /** The record sent last will never arrive: the stream cannot go on, and its close takes that record's place. */
  recordLost(): void {
    this.fenced = false;
    this.seq--;
    this.#giveUp("overflow");
  }

  /** Drops what waits and closes the slot without a terminal. */
  #giveUp(why: SenderEnd): void {
    this.#dropWithheld();
    this.#terminal = DROP;
    this.#why = why;
    // Without a slot it still opens one when it can: the consumer is waiting for an end.
    if (this.#batcher !== null && this.slot >= 0) this.#sendTerminal();
  }

  #finish(terminal: Uint8Array): void {
    if (this.#ended !== null || this.#terminal !== null) return;
    this.#terminal = terminal;
    if (terminal === DROP) this.#why = "closed";
    if (this.#batcher === null || this.slot < 0 || this.fenced || this.withheldRecords > 0) return;
    this.#sendTerminal();
  }

  #sendTerminal(): void {
    const batcher = this.#batcher!;
    const staged = this.#terminal === DROP
      ? batcher.stageGone(this)
      : batcher.stageTerminal(this, this.#terminal!);
    if (staged === Staged.noRoom) {
      this.waitForRoom();
    } else if (this.#why === "finished" || this.#why === "closed") {
      this.#settle(this.#why);
    } else {
      this.end(this.#why);
    }
  }

  /** Returns whether everything has gone. */
  #releaseWithheld(): boolean {
    const queue = this.#withheld;
    const credit = this.#credit!;
    const { stats } = this.#context;
    for (let frame = queue?.peek(); frame !== undefined; frame = queue!.peek()) {
      if (this.fenced || credit.data === 0) return false;
      const staged = this.#batcher!.stageFrame(this, frame);
      if (staged === Staged.noRoom) {
        this.waitForRoom();
        return false;
      }
      credit.spendData();
      queue!.shift();
      stats.withheldRecords--;
    }
    return !this.fenced;
  }

  #dropWithheld(): void {
    if (this.#withheld === null) return;
    this.#context.stats.withheldRecords -= this.#withheld.clear();
  }

  #settle(why: SenderEnd): void {
    this.#ended = why;
    this.#dropWithheld();
    if (this.#beat !== null) this.#beatLane!.cancel(this.#beat);
    this.#batcher?.releaseSlot(this);
    this.#context.onStreamEnded(this);
  }
}

/** Stands for an end without a terminal frame: the slot is closed as PeerGone. */
const DROP = new Uint8Array(0);
