/**
 * Guesses what workers have in their caches: a worker that was given a prompt has its blocks, until nothing has asked for
 * them for a while. For workers that report nothing.
 */
import type { Clock } from "../../clock.ts";
import type { RouteRequest } from "../policies/policy.ts";
import type { VirtualWorker } from "../worker.ts";
import type { BlockHashes } from "./block_hashes.ts";
import type { CacheView } from "./cache_view.ts";
import { PrefixIndex, type PrefixIndexLimits } from "./prefix_index.ts";
import { U64Map } from "./u64_map.ts";

interface Guess {
  readonly atMs: number;
  readonly blocks: BlockHashes;
}

/** What one worker was given. */
class Given {
  readonly number: number;
  /** In order of time; `guesses[first…]` have not expired. */
  readonly guesses: Guess[] = [];
  first = 0;
  /** How many guesses name a block. */
  readonly named = new U64Map();

  constructor(number: number) {
    this.number = number;
  }
}

/** See the head of this file. */
export class ApproximateCaches implements CacheView {
  readonly index: PrefixIndex;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #workers = new Map<VirtualWorker, Given>();
  #depths = new Uint32Array(64);

  /** @param ttlMs how long a worker is taken to keep what it was given */
  constructor(clock: Clock, ttlMs: number, limits: PrefixIndexLimits) {
    this.#clock = clock;
    this.#ttlMs = ttlMs;
    this.index = new PrefixIndex(limits);
  }

  overlaps({ blocks }: RouteRequest, candidates: readonly VirtualWorker[], into: Uint32Array): void {
    into.fill(0, 0, candidates.length);
    if (blocks === null || this.#workers.size === 0) return;
    this.#expire();
    if (this.#depths.length < this.index.numbers) this.#depths = new Uint32Array(2 * this.index.numbers);
    this.index.match(blocks.sequence, blocks.count, this.#depths);
    for (let i = 0; i < candidates.length; i++) {
      const given = this.#workers.get(candidates[i]!);
      if (given !== undefined) into[i] = this.#depths[given.number]!;
    }
  }

  placed(worker: VirtualWorker, { blocks }: RouteRequest): void {
    if (blocks === null || blocks.count === 0) return;
    let given = this.#workers.get(worker);
    if (given === undefined) {
      const number = this.index.addWorker();
      if (number < 0) return;
      this.#workers.set(worker, given = new Given(number));
    }
    given.guesses.push({ atMs: this.#clock.now(), blocks });
    const { sequence, count } = blocks;
    for (let i = 0; i < count; i++) {
      const [lo, hi] = [sequence[2 * i]!, sequence[2 * i + 1]!];
      if (!this.index.store(given.number, lo, hi)) continue;
      given.named.set(lo, hi, Math.max(0, given.named.get(lo, hi)) + 1);
    }
  }

  /** A worker has gone. */
  forget(worker: VirtualWorker): void {
    const given = this.#workers.get(worker);
    if (given === undefined) return;
    this.#workers.delete(worker);
    this.index.removeWorker(given.number);
  }

  #expire(): void {
    const latest = this.#clock.now() - this.#ttlMs;
    for (const given of this.#workers.values()) {
      const { guesses } = given;
      while (given.first < guesses.length && guesses[given.first]!.atMs <= latest) {
        this.#drop(given, guesses[given.first++]!.blocks);
      }
      if (given.first > 1_024 || given.first === guesses.length) {
        guesses.splice(0, given.first);
        given.first = 0;
      }
    }
  }

  #drop(given: Given, { sequence, count }: BlockHashes): void {
    for (let i = 0; i < count; i++) {
      const [lo, hi] = [sequence[2 * i]!, sequence[2 * i + 1]!];
      const named = given.named.get(lo, hi);
      if (named > 1) {
        given.named.set(lo, hi, named - 1);
      } else if (named === 1) {
        given.named.delete(lo, hi);
        this.index.remove(given.number, lo, hi);
      }
    }
  }
}
