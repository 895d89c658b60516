/** Caches as workers report them, and guessed for those that report nothing. */
import type { RouteRequest } from "../policies/policy.ts";
import type { VirtualWorker } from "../worker.ts";
import type { ApproximateCaches } from "./approximate_caches.ts";
import type { CacheView } from "./cache_view.ts";
import type { ReportedCaches } from "./reported_caches.ts";

/** See the head of this file. */
export class CombinedCaches implements CacheView {
  readonly reported: ReportedCaches;
  readonly approximate: ApproximateCaches;
  #guesses = new Uint32Array(64);

  constructor(reported: ReportedCaches, approximate: ApproximateCaches) {
    this.reported = reported;
    this.approximate = approximate;
  }

  overlaps(request: RouteRequest, candidates: readonly VirtualWorker[], into: Uint32Array): void {
    this.reported.overlaps(request, candidates, into);
    if (candidates.every((one) => this.reported.has(one))) return;
    if (this.#guesses.length < candidates.length) this.#guesses = new Uint32Array(2 * candidates.length);
    this.approximate.overlaps(request, candidates, this.#guesses);
    for (let i = 0; i < candidates.length; i++) {
      if (!this.reported.has(candidates[i]!)) into[i] = this.#guesses[i]!;
    }
  }

  placed(worker: VirtualWorker, request: RouteRequest): void {
    if (!this.reported.has(worker)) this.approximate.placed(worker, request);
  }

  /** A worker has gone. */
  forget(worker: VirtualWorker): void {
    this.reported.forget(worker);
    this.approximate.forget(worker);
  }
}
