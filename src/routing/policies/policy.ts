/** How one of several workers is chosen. One file per policy; `router.ts` has taken out who cannot take the request. */
import type { BlockHashes } from "../kv/block_hashes.ts";
import type { VirtualWorker } from "../worker.ts";

/** What a choice may depend on. */
export interface RouteRequest {
  /** The model's own name, aliases resolved. */
  readonly model: string;
  /** The prompt's full blocks; null when nobody has looked at it. */
  readonly blocks: BlockHashes | null;
  /** The worker that the client asked for, by the name that responses give it; null when it did not. */
  readonly wanted: string | null;
}

/** What a request adds to its worker's load, in KV blocks. */
export interface PlacedBlocks {
  /** To be computed: the prompt's, without those that the worker has in its cache. */
  readonly prefill: number;
  /** Held until the request ends. */
  readonly decode: number;
}

/** Blocks of all prompts placed, and of these the ones that the chosen worker had. */
export interface CacheHits {
  promptBlocks: number;
  overlapBlocks: number;
}

/** See the head of this file. */
export interface Policy {
  /** Of a policy that goes by caches. */
  readonly stats?: CacheHits;
  /** One of `candidates`, or null when none of them will do. There is at least one; the list is valid in the call only. */
  choose(candidates: readonly VirtualWorker[], request: RouteRequest): VirtualWorker | null;
  /** The worker that `choose` has just returned gets the request. Absent: blocks are not counted. */
  place?(worker: VirtualWorker, request: RouteRequest): PlacedBlocks;
}

/** A number from 0 (inclusive) to 1 (exclusive). */
export type Random = () => number;
