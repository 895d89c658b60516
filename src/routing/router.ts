/** Which worker gets a request: takes out who cannot take it, and lets the policy choose among the others. */
import { Load, type LoadBoard } from "./load_board.ts";
import { Placement } from "./placement.ts";
import type { Policy, RouteRequest } from "./policies/policy.ts";
import type { VirtualWorker, Worker } from "./worker.ts";
import type { WorkerTable } from "./worker_table.ts";

/** Why there is no worker for a request. */
export type NoWorker = "unknown_model" | "unavailable" | "all_tried" | "all_busy" | "not_wanted";

/** Picks workers of one table. */
export class Router {
  readonly policy: Policy;
  readonly #table: WorkerTable;
  readonly #board: LoadBoard;
  /** Workers that may be chosen; reused from request to request. */
  readonly #candidates: VirtualWorker[] = [];

  constructor(table: WorkerTable, policy: Policy) {
    this.#table = table;
    this.policy = policy;
    this.#board = table.board;
  }

  /** A worker that is not among `tried` and that the request counts for from now on, or why there is none. */
  place(request: RouteRequest, tried: readonly Worker[] = []): Placement | NoWorker {
    const { model } = request;
    const serving = this.#table.serving(model);
    if (serving.length === 0) {
      if (tried.length > 0) return "all_tried";
      // While nobody serves anything, as behind a restart, which models there are is not known.
      const { isServing } = this.#table;
      const isExpected = !isServing || this.#table.knows(model) || this.#table.servedLately(model);
      return isExpected ? "unavailable" : "unknown_model";
    }
    const candidates = this.#candidates;
    candidates.length = 0;
    let isAnyBusy = false;
    for (const worker of serving) {
      if (tried.includes(worker)) continue;
      if (this.#isFull(worker)) isAnyBusy = true;
      else candidates.push(...worker.virtual);
    }
    if (candidates.length === 0) return isAnyBusy ? "all_busy" : "all_tried";
    const target = this.policy.choose(candidates, request);
    if (target === null) return tried.length > 0 ? "all_tried" : isAnyBusy ? "all_busy" : "not_wanted";
    return new Placement(target, this.#board, this.policy.place?.(target, request) ?? null);
  }

  #isFull({ info: { capacity }, inFlight, virtual }: Worker): boolean {
    if (capacity === 0 || inFlight >= capacity) return capacity > 0;
    // Without a row a worker is counted by this shard alone.
    let requests = 0;
    for (const { row } of virtual) requests += this.#board.total(row, Load.requests);
    return requests >= capacity;
  }
}
