/**
 * The worker on which a request costs least, what it has of the prompt in its cache taken into account.
 *
 *     to_prefill = max(prefill blocks under way + the prompt's - overlap_credit * blocks in the cache, 0)
 *     cost       = prefill_load_scale * to_prefill + decode blocks under way + the prompt's
 *
 * The least cost wins, equals take turns; with a temperature above 0 the cost only weighs the dice: softmax over the
 * negative costs, divided by their spread and the temperature. Formula and names are those of Dynamo's router.
 */
import { Load, type LoadBoard } from "../load_board.ts";
import type { CacheView } from "../kv/cache_view.ts";
import type { VirtualWorker } from "../worker.ts";
import type { CacheHits, PlacedBlocks, Policy, Random, RouteRequest } from "./policy.ts";

/** Weights of the cost. */
export interface KvWeights {
  /** What a block in the cache saves, in blocks; 0 ignores caches. */
  readonly overlapCredit: number;
  /** What a block to prefill costs, in blocks held. */
  readonly prefillLoadScale: number;
  /** 0 takes the least cost, always. */
  readonly temperature: number;
}

/** See the head of this file. */
export class KvAware implements Policy {
  readonly stats: CacheHits = { promptBlocks: 0, overlapBlocks: 0 };
  readonly #board: LoadBoard;
  readonly #caches: CacheView;
  readonly #weights: KvWeights;
  readonly #random: Random;
  /** Of the candidates in hand; reused from request to request. */
  #costs = new Float64Array(64);
  #overlaps = new Uint32Array(64);
  #turn = 0;
  /** Of the worker chosen last. */
  #overlap = 0;

  constructor(board: LoadBoard, caches: CacheView, weights: KvWeights, random: Random) {
    this.#board = board;
    this.#caches = caches;
    this.#weights = weights;
    this.#random = random;
  }

  choose(candidates: readonly VirtualWorker[], request: RouteRequest): VirtualWorker {
    const count = candidates.length;
    if (this.#costs.length < count) {
      this.#costs = new Float64Array(2 * count);
      this.#overlaps = new Uint32Array(2 * count);
    }
    this.#caches.overlaps(request, candidates, this.#overlaps);
    this.#price(candidates, request.blocks?.count ?? 0);
    const at = this.#weights.temperature > 0 ? this.#draw(count) : this.#cheapest(count);
    this.#overlap = this.#overlaps[at]!;
    return candidates[at]!;
  }

  place(worker: VirtualWorker, request: RouteRequest): PlacedBlocks {
    const blocks = request.blocks?.count ?? 0;
    this.#caches.placed(worker, request);
    this.stats.promptBlocks += blocks;
    this.stats.overlapBlocks += this.#overlap;
    return { prefill: blocks - this.#overlap, decode: blocks };
  }

  #price(candidates: readonly VirtualWorker[], blocks: number): void {
    const { overlapCredit, prefillLoadScale } = this.#weights;
    for (let i = 0; i < candidates.length; i++) {
      const { row } = candidates[i]!;
      const prefill = this.#board.total(row, Load.prefillBlocks) + blocks -
        overlapCredit * this.#overlaps[i]!;
      const decode = this.#board.total(row, Load.decodeBlocks) + blocks;
      this.#costs[i] = prefillLoadScale * Math.max(prefill, 0) + decode;
    }
  }

  #cheapest(count: number): number {
    let best = this.#turn++ % count;
    for (let i = 0, at = best; i < count; i++, at = at + 1 === count ? 0 : at + 1) {
      if (this.#costs[at]! < this.#costs[best]!) best = at;
    }
    return best;
  }

  #draw(count: number): number {
    const costs = this.#costs;
    let [least, most] = [Infinity, 0];
    for (let i = 0; i < count; i++) {
      least = Math.min(least, costs[i]!);
      most = Math.max(most, costs[i]!);
    }
    const scale = this.#weights.temperature * (most - least || 1);
    let sum = 0;
    for (let i = 0; i < count; i++) sum += costs[i] = Math.exp((least - costs[i]!) / scale);
    let left = this.#random() * sum;
    for (let i = 0; i < count; i++) {
      left -= costs[i]!;
      if (left < 0) return i;
    }
    return count - 1;
  }
}
