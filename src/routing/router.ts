/** Which worker gets a request: takes out who cannot take it, and lets the policy choose among the others. */
import { Load, type LoadBoard } from "./load_board.ts";
import { Placement } from "./placement.ts";
import type { Policy, RouteRequest } from "./policies/policy.ts";
import type { Worker, WorkerTable } from "./worker_table.ts";

/** Why there is no worker for a request. */
export type NoWorker = "unknown_model" | "unavailable" | "all_tried" | "all_busy";

/** Picks workers of one table. */
export class Router {
  readonly #table: WorkerTable;
  readonly #policy: Policy;
  readonly #board: LoadBoard;
  /** Workers that may be chosen; reused from request to request. */
  readonly #candidates: Worker[] = [];

  constructor(table: WorkerTable, policy: Policy) {
    this.#table = table;
    this.#policy = policy;
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
      else candidates.push(worker);
    }
    if (candidates.length === 0) return isAnyBusy ? "all_busy" : "all_tried";
    const worker = this.#policy.choose(candidates, request);
    if (worker === null) return tried.length > 0 ? "all_tried" : isAnyBusy ? "all_busy" : "unavailable";
    return new Placement(worker, this.#board, this.#policy.place?.(worker, request) ?? null);
  }

  #isFull({ info: { capacity }, inFlight, row }: Worker): boolean {
    // A worker without a row is counted by this shard alone.
    return capacity > 0 && Math.max(inFlight, this.#board.total(row, Load.requests)) >= capacity;
  }
}
