/** What a router may ask about workers' caches, however it is known: by their events, or by guessing from what they got. */
import type { RouteRequest } from "../policies/policy.ts";
import type { VirtualWorker } from "../worker.ts";

/** See the head of this file. */
export interface CacheView {
  /** Writes how many of the request's first blocks each candidate has to `into[i]`; all 0 when there are no blocks. */
  overlaps(request: RouteRequest, candidates: readonly VirtualWorker[], into: Uint32Array): void;
  /** The worker gets the request, and will have its blocks. */
  placed(worker: VirtualWorker, request: RouteRequest): void;
}
