/**
 * The scheduler of a simulated GPU: which requests take part in a forward pass, and with how many tokens.
 *
 * A pass has a budget of tokens. Running requests come first, one token each once their prompt is computed, a chunk of the
 * prompt before; what is left of the budget takes waiting requests in, as long as their blocks fit. A running request that
 * cannot get its next block makes the newest running one start over: it gives its blocks back and waits at the head.
 */
import type { BlockManager } from "./block_manager.ts";
import type { Sequence } from "./sequence.ts";
import { decodeMs, prefillMs } from "./timing.ts";

/** Settings of a {@linkcode Scheduler}. */
export interface SchedulerLimits {
  /** Requests running at one time. */
  readonly maxSequences: number;
  /** Tokens of one pass. */
  readonly maxBatchedTokens: number;
  /** Whether a prompt may be computed in several passes. */
  readonly hasChunkedPrefill: boolean;
}

/** One forward pass. */
export interface Pass<T> {
  /** Requests that make a token in it. Valid until the next pass is planned. */
  readonly making: readonly T[];
  /** Prompt tokens computed in it. */
  readonly prefillTokens: number;
  /** How long it takes, ms. */
  readonly durationMs: number;
}

/** Counts since the start. */
export interface SchedulerStats {
  passes: number;
  preemptions: number;
  /** Prompt tokens that were found in the cache, and those that had to be computed. */
  cachedTokens: number;
  computedTokens: number;
}

/** A request as the scheduler sees it. */
export interface Scheduled {
  readonly sequence: Sequence;
}

/** See the head of this file. */
export class Scheduler<T extends Scheduled> {
  readonly stats: SchedulerStats = { passes: 0, preemptions: 0, cachedTokens: 0, computedTokens: 0 };
  readonly #blocks: BlockManager;
  readonly #blockSize: number;
  readonly #limits: SchedulerLimits;
  /** The next to run is last: those that were preempted come back to the head. */
  readonly #waiting: T[] = [];
  /** In order of admission. */
  readonly #running: T[] = [];
  readonly #making: T[] = [];

  constructor(blocks: BlockManager, blockSize: number, limits: SchedulerLimits) {
    this.#blocks = blocks;
    this.#blockSize = blockSize;
    this.#limits = limits;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  get running(): number {
    return this.#running.length;
  }

  /** Whether a request with so many tokens in all can ever be run. */
  fits(tokens: number): boolean {
    const { hasChunkedPrefill, maxBatchedTokens } = this.#limits;
    const isInCache = Math.ceil(tokens / this.#blockSize) <= this.#blocks.capacity;
    return isInCache && (hasChunkedPrefill || tokens <= maxBatchedTokens);
  }

  /** Takes a request in, behind those that wait. */
  add(request: T): void {
    this.#waiting.unshift(request);
  }

  /** A request is over, or nobody wants it any more. Unknown ones are ignored. */
  remove(request: T): void {
    const at = this.#running.indexOf(request);
    if (at >= 0) {
      this.#running.splice(at, 1);
      this.#giveBack(request.sequence);
      return;
    }
    const waitingAt = this.#waiting.indexOf(request);
    if (waitingAt >= 0) this.#waiting.splice(waitingAt, 1);
  }

  /** Plans the next pass and does its bookkeeping; null when there is nothing to run. The caller emits its tokens. */
  plan(): Pass<T> | null {
    const { maxBatchedTokens, maxSequences } = this.#limits;
    const making = this.#making;
    making.length = 0;
    let budget = maxBatchedTokens;
    let prefillTokens = 0;
    let decoding = 0;
    // A preemption takes requests off the end while this goes on, never those that have had their turn before the end.
    for (let i = 0; i < this.#running.length && budget > 0; i++) {
      const request = this.#running[i]!;
      const { sequence } = request;
      const tokens = Math.min(sequence.pending, budget);
      if (!this.#makeRoomFor(request, tokens)) break;
      if (sequence.isDecoding) decoding++;
      else prefillTokens += tokens;
      budget -= tokens;
      this.#compute(sequence, tokens);
      if (sequence.pending === 0) making.push(request);
    }
    while (this.#running.length < maxSequences && budget > 0 && this.#waiting.length > 0) {
      const request = this.#waiting.at(-1)!;
      const tokens = this.#admit(request.sequence, budget);
      if (tokens === 0) break;
      this.#waiting.pop();
      this.#running.push(request);
      budget -= tokens;
      prefillTokens += tokens;
      if (request.sequence.pending === 0) making.push(request);
    }
    if (this.#running.length === 0) return null;
    this.stats.passes++;
    const decode = decoding === 0 ? 0 : decodeMs(this.#blocks.active / this.#blocks.capacity);
    return { making, prefillTokens, durationMs: prefillMs(prefillTokens) + decode };
  }

  /**
   * Finds what the cache has of a waiting request and takes blocks for the first chunk of the rest. Returns the tokens to
   * compute, 0 when it has to go on waiting.
   */
  #admit(sequence: Sequence, budget: number): number {
    const { hasChunkedPrefill } = this.#limits;
    const blocks = this.#blocks;
    let found = 0;
    // The last token is always computed: it makes the first new one.
    const most = Math.floor((sequence.length - 1) / this.#blockSize);
    while (found < most && blocks.has(sequence.blockAt(found))) found++;
    const left = sequence.length - found * this.#blockSize;
    if (left > budget && !hasChunkedPrefill) return 0;
    const tokens = Math.min(left, budget);
    // Found blocks that nobody holds take from what is available, too.
    let needed = Math.ceil((found * this.#blockSize + tokens) / this.#blockSize);
    for (let i = 0; i < found; i++) if (blocks.isHeld(sequence.blockAt(i))) needed--;
    if (needed > blocks.available) return 0;
    for (let i = 0; i < found; i++) blocks.use(sequence, i);
    sequence.heldBlocks = found;
    sequence.computed = found * this.#blockSize;
    this.stats.cachedTokens += sequence.computed;
    this.#compute(sequence, tokens);
    return tokens;
  }

  /** Makes sure of the blocks for `tokens` more; preempts the newest others. False when the request itself had to go. */
  #makeRoomFor(request: T, tokens: number): boolean {
    const { sequence } = request;
    const has = sequence.heldBlocks + (sequence.hasPartial ? 1 : 0);
    const needed = Math.ceil((sequence.computed + tokens) / this.#blockSize) - has;
    while (needed > this.#blocks.available) {
      const victim = this.#running.pop()!;
      this.#preempt(victim);
      if (victim === request) return false;
    }
    return true;
  }

  #preempt(victim: T): void {
    this.stats.preemptions++;
    this.#giveBack(victim.sequence);
    this.#waiting.push(victim);
  }

  /** Takes the blocks that `tokens` more fill; room for them has been made. */
  #compute(sequence: Sequence, tokens: number): void {
    if (!sequence.isDecoding) this.stats.computedTokens += tokens;
    sequence.computed += tokens;
    const full = Math.floor(sequence.computed / this.#blockSize);
    while (sequence.heldBlocks < full) {
      if (sequence.hasPartial) this.#blocks.promote(sequence, sequence.heldBlocks);
      else this.#blocks.use(sequence, sequence.heldBlocks);
      sequence.hasPartial = false;
      sequence.heldBlocks++;
    }
    if (!sequence.hasPartial && sequence.computed > full * this.#blockSize) {
      this.#blocks.usePartial();
      sequence.hasPartial = true;
    }
  }

  #giveBack(sequence: Sequence): void {
    if (sequence.hasPartial) this.#blocks.releasePartial();
    for (let i = sequence.heldBlocks - 1; i >= 0; i--) this.#blocks.release(sequence.blockAt(i));
    sequence.hasPartial = false;
    sequence.heldBlocks = 0;
    sequence.computed = 0;
  }
}
