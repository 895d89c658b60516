/**
 * One connection of the in-memory network: a sending queue, a wire with delay and limited room, a receiver.
 *
 * It behaves as a TCP connection does: order is kept, a receiver that does not read fills first the wire, then the
 * sender's queue, and what is on the way when it is cut may or may not arrive.
 */
import type { Clock, TimerHandle } from "../../src/clock.ts";
import type { MessageType } from "../contract.ts";
import type { Random } from "./random.ts";

/** A frame on its way; its bytes are its own. */
export interface MemoryFrame {
  readonly type: MessageType;
  readonly header: Uint8Array;
  readonly payload: Uint8Array;
}

/** Sizes and delays of a {@linkcode MemoryPipe}. */
export interface PipeSettings {
  readonly clock: Clock;
  readonly random: Random;
  /** Shortest time from the queue to the receiver, ms. */
  readonly delayMs: number;
  /** Up to so much more, chosen per burst, ms. */
  readonly jitterMs: number;
  readonly queueFrames: number;
  readonly queueBytes: number;
  /** Bytes that fit on the wire; a single frame always fits on an empty one. */
  readonly wireBytes: number;
}

/** What a {@linkcode MemoryPipe} tells its owner. */
export interface PipeEvents {
  /** There is room in the queue again. */
  onRoom(): void;
  /** These frames arrive, as one read. */
  onArrival(frames: readonly MemoryFrame[]): void;
}

interface Burst {
  readonly due: number;
  readonly frames: MemoryFrame[];
  readonly bytes: number;
}

/** See the head of this file. */
export class MemoryPipe {
  readonly #settings: PipeSettings;
  readonly #events: PipeEvents;
  #queue: MemoryFrame[] = [];
  #queueBytes = 0;
  #wire: Burst[] = [];
  #wireBytes = 0;
  #isScheduled = false;
  #timer: TimerHandle = null;
  #isOpen = false;
  #isPaused = false;
  #isCut = false;

  constructor(settings: PipeSettings, events: PipeEvents) {
    this.#settings = settings;
    this.#events = events;
  }

  /** Nothing is queued or on the way. */
  get isEmpty(): boolean {
    return this.#queue.length === 0 && this.#wire.length === 0;
  }

  /** Queues a frame; false when there is no room. */
  tryPush(frame: MemoryFrame): boolean {
    const bytes = bytesOf(frame);
    const { queueFrames, queueBytes } = this.#settings;
    if (
      this.#queue.length > 0 && (this.#queue.length >= queueFrames || this.#queueBytes + bytes > queueBytes)
    ) {
      return false;
    }
    this.#queue.push(frame);
    this.#queueBytes += bytes;
    this.#schedule();
    return true;
  }

  /** The connection is up: what was queued may go. */
  open(): void {
    this.#isOpen = true;
    this.#schedule();
  }

  /** Stops and restarts the receiver's reading. */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused;
    if (!isPaused) this.#arm();
  }

  /** Ends it. Returns the frames that were on the wire, in order; the owner may still deliver some of them. */
  cut(): MemoryFrame[] {
    this.#isCut = true;
    this.#settings.clock.clearTimer(this.#timer);
    this.#timer = null;
    const onWire = this.#wire.flatMap((burst) => burst.frames);
    this.#wire = [];
    this.#wireBytes = 0;
    this.#queue = [];
    this.#queueBytes = 0;
    return onWire;
  }

  #schedule(): void {
    if (this.#isScheduled || !this.#isOpen || this.#isCut || this.#queue.length === 0) return;
    this.#isScheduled = true;
    this.#settings.clock.defer(() => {
      this.#isScheduled = false;
      this.#transmit();
    });
  }

  /** Moves what fits from the queue to the wire. */
  #transmit(): void {
    if (this.#isCut) return;
    const frames: MemoryFrame[] = [];
    let bytes = 0;
    while (this.#queue.length > frames.length) {
      const next = bytesOf(this.#queue[frames.length]!);
      const isFirst = this.#wire.length === 0 && frames.length === 0;
      if (!isFirst && this.#wireBytes + bytes + next > this.#settings.wireBytes) break;
      frames.push(this.#queue[frames.length]!);
      bytes += next;
    }
    if (frames.length === 0) return;
    this.#queue = this.#queue.slice(frames.length);
    this.#queueBytes -= bytes;
    const { clock, random, delayMs, jitterMs } = this.#settings;
    const due = Math.max(clock.now() + delayMs + jitterMs * random(), this.#wire.at(-1)?.due ?? 0);
    this.#wire.push({ due, frames, bytes });
    this.#wireBytes += bytes;
    this.#arm();
    this.#events.onRoom();
    this.#schedule();
  }

  #arm(): void {
    const first = this.#wire[0];
    if (this.#timer !== null || first === undefined || this.#isPaused || this.#isCut) return;
    const { clock } = this.#settings;
    this.#timer = clock.setTimer(() => {
      this.#timer = null;
      this.#deliver();
    }, first.due - clock.now());
  }

  #deliver(): void {
    if (this.#isPaused || this.#isCut) return;
    const now = this.#settings.clock.now();
    const frames: MemoryFrame[] = [];
    while (this.#wire[0] !== undefined && this.#wire[0].due <= now) {
      const burst = this.#wire.shift()!;
      frames.push(...burst.frames);
      this.#wireBytes -= burst.bytes;
    }
    this.#schedule();
    this.#arm();
    if (frames.length > 0) this.#events.onArrival(frames);
  }
}

function bytesOf(frame: MemoryFrame): number {
  return frame.header.length + frame.payload.length;
}
