/**
 * The streams that one read brought something for, flushed together at its end. Reads of several connections that share
 * an end (`FrameSink.onReadEnd`) count as one, here and in `relay.ts`.
 */
import type { Clock } from "../clock.ts";
import { ChunkSlab } from "./egress/chunk_slab.ts";
import { portableEgress } from "./egress/portable_sink.ts";
import type { Egress } from "./egress/sink.ts";

/** A stream with something to write. */
export interface Flushable {
  /** Whether it ends with this flush. Closing is work that would hold up the tokens of those behind it: it goes last. */
  readonly isEnding: boolean;
  /** @param now the clock's, in ms: read once for all */
  flush(now: number): void;
  /** Its flush threw. Must not throw. */
  flushFailed(caught: unknown): void;
}

/** One per frontend: the touched list and the memory that touched streams gather in. */
export class FlushList {
  readonly slab = new ChunkSlab();
  readonly clock: Clock;
  /** How what is flushed leaves; set once the runtime has been asked what works. */
  egress: Egress = portableEgress;
  #touched: (Flushable | null)[] = [];
  #spare: (Flushable | null)[] = [];
  #count = 0;
  #isFlushing = false;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Has `stream` flushed at the end of this read. Each stream asks once per read. */
  touch(stream: Flushable): void {
    this.#touched[this.#count++] = stream;
  }

  /** Flushes every touched stream, and what they touch meanwhile; called from within one's flush it leaves that to it. */
  flush(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    try {
      while (this.#count > 0) this.#pass();
    } finally {
      // Whatever the egress threw: no stream would ever be flushed again.
      this.#isFlushing = false;
    }
  }

  #pass(): void {
    const count = this.#count;
    const now = this.clock.now();
    const touched = this.#touched;
    this.#touched = this.#spare;
    this.#spare = touched;
    this.#count = 0;
    this.egress.beginFlush();
    let ending = 0;
    for (let i = 0; i < count; i++) {
      const stream = touched[i]!;
      // The array is used again; what is in it must not keep a finished stream alive.
      touched[i] = null;
      if (stream.isEnding) touched[ending++] = stream;
      else flushOne(stream, now);
    }
    for (let i = 0; i < ending; i++) {
      const stream = touched[i]!;
      touched[i] = null;
      flushOne(stream, now);
    }
    this.egress.endFlush();
  }
}

function flushOne(stream: Flushable, now: number): void {
  try {
    stream.flush(now);
  } catch (caught) {
    // Those behind it are asked only now: what went wrong with one must not cost them their turn.
    stream.flushFailed(caught);
  }
}
