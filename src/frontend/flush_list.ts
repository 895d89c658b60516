/**
 * The streams that one read brought something for, flushed together at its end. Reads of several connections that share
 * an end (`FrameSink.onReadEnd`) count as one, here and in `relay.ts`.
 */
import type { Clock } from "../clock.ts";
import { ChunkSlab } from "./egress/chunk_slab.ts";
import { portableEgress } from "./egress/portable_sink.ts";
import type { Egress } from "./egress/sink.ts";

/** Streams whose memory is fetched together: what they need stays in the first-level cache until their turn. */
const PREFETCH_STREAMS = 32;

/** A stream with something to write. */
export interface Flushable {
  /**
   * Reads what `flush` will, and returns a number made of it, so that no compiler leaves the reading out. Thousands of
   * streams had their turn since this one's: its memory is in no cache, and the misses of many overlap when nothing else
   * stands between them.
   */
  prefetch(): number;
  /** Whether it ends with this flush. Closing is work that would hold up the tokens of those behind it: it goes last. */
  readonly isEnding: boolean;
  /** @param now the clock's, in ms: read once for all */
  flush(now: number): void;
  /** A write of its threw: what its client has is not known. Must not throw. */
  writeFailed(caught: unknown): void;
}

/** One per frontend: the touched list and the memory that touched streams gather in. */
export class FlushList {
  readonly clock: Clock;
  #egress: Egress = portableEgress;
  #slab = new ChunkSlab();
  #touched: (Flushable | null)[] = [];
  #spare: (Flushable | null)[] = [];
  #count = 0;
  #isFlushing = false;
  /** What prefetching came to; of no other use. */
  #prefetched = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** How what is flushed leaves. */
  get egress(): Egress {
    return this.#egress;
  }

  /** What touched streams gather in. A chunk that is open there belongs to a stream that has been touched. */
  get slab(): ChunkSlab {
    return this.#slab;
  }

  /** Takes an egress, once the runtime has been asked what works; before any stream. */
  use(egress: Egress): void {
    this.#egress = egress;
    this.#slab = new ChunkSlab(!egress.keepsChunks);
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
    } catch (caught) {
      this.#failTouched(caught);
      throw caught;
    } finally {
      // Also when the egress threw: else no stream would ever be flushed again.
      this.#isFlushing = false;
    }
    if (!this.#egress.keepsChunks) this.#slab.rewind();
  }

  #pass(): void {
    const count = this.#count;
    const now = this.clock.now();
    const touched = this.#touched;
    this.#touched = this.#spare;
    this.#spare = touched;
    this.#count = 0;
    this.#egress.beginFlush();
    try {
      this.#flushAll(touched, count, now);
    } finally {
      this.#egress.endFlush();
    }
  }

  #flushAll(touched: (Flushable | null)[], count: number, now: number): void {
    let ending = 0;
    let fetched = 0;
    for (let i = 0; i < count; i++) {
      if (i === fetched) {
        fetched = Math.min(count, i + PREFETCH_STREAMS);
        this.#prefetch(touched, i, fetched);
      }
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
  }

  #prefetch(touched: readonly (Flushable | null)[], from: number, to: number): void {
    let sum = 0;
    for (let i = from; i < to; i++) sum ^= touched[i]!.prefetch();
    this.#prefetched = sum;
  }

  /** The egress threw: streams behind the fault would keep an open chunk in memory that is used again. They end here. */
  #failTouched(caught: unknown): void {
    this.#count = 0;
    this.#slab.renew();
    for (const touched of [this.#spare, this.#touched]) {
      touched.forEach((stream, index) => {
        touched[index] = null;
        stream?.writeFailed(caught);
      });
    }
  }
}

function flushOne(stream: Flushable, now: number): void {
  try {
    stream.flush(now);
  } catch (caught) {
    // Those behind it are asked only now: what went wrong with one must not cost them their turn.
    stream.writeFailed(caught);
  }
}
