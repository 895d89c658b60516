/**
 * What workers have in their caches, by their own reports.
 *
 * Reports of a worker are numbered. When one is missing, what is known of that worker is void until a snapshot has come;
 * until then it counts as having nothing.
 */
import { TokenplaneError } from "../../errors.ts";
import type { RouteRequest } from "../policies/policy.ts";
import type { VirtualWorker } from "../worker.ts";
import { extendSequence } from "./block_hashes.ts";
import { type EventVisitor, readEvents, readEventsHeader } from "./cache_events.ts";
import type { CacheView } from "./cache_view.ts";
import { PrefixIndex, type PrefixIndexLimits } from "./prefix_index.ts";
import { U64Map } from "./u64_map.ts";

/** One worker's cache as it has reported it. */
class Reported implements EventVisitor {
  readonly number: number;
  readonly #index: PrefixIndex;
  readonly #maxBlocks: number;
  /** The engine's names to places in the arrays below. */
  readonly #places = new U64Map();
  /** Sequence hashes, low half first, by place. */
  #sequences = new Uint32Array(256);
  readonly #free: number[] = [];
  #used = 0;
  /** Number of the event that has to come next; null: what it has is not known. */
  nextEvent: bigint | null = null;
  /** Parent and block of the chain being read, as `extendSequence` wants them. */
  readonly #chain = new Uint32Array(4);
  readonly #locals = new Uint32Array(4);
  #hasParent = false;
  /** The chain hangs on a block that nobody has told of. */
  #isLost = false;

  constructor(number: number, index: PrefixIndex, maxBlocks: number) {
    this.number = number;
    this.#index = index;
    this.#maxBlocks = maxBlocks;
  }

  /** Blocks that it has reported and not taken back. */
  get blocks(): number {
    return this.#places.size;
  }

  clear(): void {
    this.#index.clear(this.number);
    this.#places.clear();
    this.#free.length = 0;
    this.#used = 0;
  }

  onParent(hasParent: boolean, lo: number, hi: number): void {
    this.#hasParent = hasParent;
    this.#isLost = false;
    if (!hasParent) return;
    const place = this.#places.get(lo, hi);
    this.#isLost = place < 0;
    if (place >= 0) this.#setParent(place);
  }

  onStored(lo: number, hi: number, localLo: number, localHi: number): void {
    // Without its parent a block has no name; whoever asks for the prompt would not get as far as to it either.
    if (this.#isLost || this.#places.size >= this.#maxBlocks) return;
    this.#locals[this.#hasParent ? 2 : 0] = localLo;
    this.#locals[this.#hasParent ? 3 : 1] = localHi;
    extendSequence(this.#chain, this.#hasParent ? 1 : 0, this.#locals);
    const at = this.#hasParent ? 2 : 0;
    const [sequenceLo, sequenceHi] = [this.#chain[at]!, this.#chain[at + 1]!];
    let place = this.#places.get(lo, hi);
    if (place < 0) {
      if (!this.#index.store(this.number, sequenceLo, sequenceHi)) {
        this.#isLost = true;
        return;
      }
      place = this.#free.pop() ?? this.#newPlace();
      this.#places.set(lo, hi, place);
      this.#sequences[2 * place] = sequenceLo;
      this.#sequences[2 * place + 1] = sequenceHi;
    }
    this.#setParent(place);
    this.#hasParent = true;
  }

  onRemoved(lo: number, hi: number): void {
    const place = this.#places.delete(lo, hi);
    if (place < 0) return;
    this.#index.remove(this.number, this.#sequences[2 * place]!, this.#sequences[2 * place + 1]!);
    this.#free.push(place);
  }

  onCleared(): void {
    this.clear();
  }

  #setParent(place: number): void {
    this.#chain[0] = this.#sequences[2 * place]!;
    this.#chain[1] = this.#sequences[2 * place + 1]!;
  }

  #newPlace(): number {
    if (2 * this.#used === this.#sequences.length) {
      const larger = new Uint32Array(2 * this.#sequences.length);
      larger.set(this.#sequences);
      this.#sequences = larger;
    }
    return this.#used++;
  }
}

/** Bounds of {@linkcode ReportedCaches}. */
export interface ReportedLimits extends PrefixIndexLimits {
  /** Blocks of one worker. */
  readonly maxWorkerBlocks: number;
}

/** See the head of this file. */
export class ReportedCaches implements CacheView {
  readonly index: PrefixIndex;
  readonly #limits: ReportedLimits;
  readonly #workers = new Map<VirtualWorker, Reported>();
  #depths = new Uint32Array(64);
  /** Reports that were missed, and messages that could not be read. */
  readonly stats = { gaps: 0, malformed: 0 };

  constructor(limits: ReportedLimits) {
    this.#limits = limits;
    this.index = new PrefixIndex(limits);
  }

  /**
   * Takes a message of a worker. True when a snapshot is needed: reports were missed, or nothing is known yet. Throws
   * `protocol` for one that breaks the layout; a snapshot is needed then, too.
   */
  handle(worker: VirtualWorker, message: Uint8Array): boolean {
    const reported = this.#reportedOf(worker);
    if (reported === null) return false;
    try {
      const { isSnapshot, firstEvent, events } = readEventsHeader(message);
      // A worker that starts has nothing, and counts from 0.
      if (!isSnapshot && (reported.nextEvent ?? 0n) !== firstEvent) {
        // Behind a snapshot come reports that it has already.
        if (reported.nextEvent !== null && firstEvent + BigInt(events) <= reported.nextEvent) return false;
        if (reported.nextEvent !== null) this.stats.gaps++;
        this.#void(reported);
        return true;
      }
      if (isSnapshot) reported.clear();
      readEvents(message, events, reported);
      reported.nextEvent = isSnapshot ? firstEvent : firstEvent + BigInt(events);
      return false;
    } catch (caught) {
      this.stats.malformed++;
      this.#void(reported);
      throw caught instanceof TokenplaneError ? caught : new TokenplaneError("protocol", String(caught));
    }
  }

  overlaps({ blocks }: RouteRequest, candidates: readonly VirtualWorker[], into: Uint32Array): void {
    into.fill(0, 0, candidates.length);
    if (blocks === null || this.#workers.size === 0) return;
    if (this.#depths.length < this.index.numbers) this.#depths = new Uint32Array(2 * this.index.numbers);
    this.index.match(blocks.sequence, blocks.count, this.#depths);
    for (let i = 0; i < candidates.length; i++) {
      const reported = this.#workers.get(candidates[i]!);
      if (reported !== undefined) into[i] = this.#depths[reported.number]!;
    }
  }

  // Its reports will tell.
  placed(): void {}

  /** Whether the worker reports what it has. */
  has(worker: VirtualWorker): boolean {
    return this.#workers.has(worker);
  }

  /** A worker has gone. */
  forget(worker: VirtualWorker): void {
    const reported = this.#workers.get(worker);
    if (reported === undefined) return;
    this.#workers.delete(worker);
    this.index.removeWorker(reported.number);
  }

  #reportedOf(worker: VirtualWorker): Reported | null {
    const known = this.#workers.get(worker);
    if (known !== undefined) return known;
    const number = this.index.addWorker();
    if (number < 0) return null;
    const reported = new Reported(number, this.index, this.#limits.maxWorkerBlocks);
    this.#workers.set(worker, reported);
    return reported;
  }

  #void(reported: Reported): void {
    reported.clear();
    reported.nextEvent = null;
  }
}
