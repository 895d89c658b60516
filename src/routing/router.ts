/** Which worker gets a request: the one with the least in flight here; among equals they take turns. */
import type { Worker, WorkerTable } from "./worker_table.ts";

/** Why there is no worker for a request. */
export type NoWorker = "unknown_model" | "unavailable" | "all_tried" | "all_busy";

/** Picks workers of one table. */
export class Router {
  readonly #table: WorkerTable;
  #turn = 0;

  constructor(table: WorkerTable) {
    this.#table = table;
  }

  /** A worker for `model` that is not among `tried`, or why there is none. */
  pick(model: string, tried: readonly Worker[] = []): Worker | NoWorker {
    const candidates = this.#table.serving(model);
    const count = candidates.length;
    if (count === 0) {
      if (tried.length > 0) return "all_tried";
      // While nobody serves anything, as behind a restart, which models there are is not known.
      const { isServing } = this.#table;
      const isExpected = !isServing || this.#table.knows(model) || this.#table.servedLately(model);
      return isExpected ? "unavailable" : "unknown_model";
    }
    let best: Worker | null = null;
    let isAnyBusy = false;
    const first = this.#turn++ % count;
    for (let i = 0; i < count; i++) {
      const worker = candidates[(first + i) % count]!;
      if (tried.includes(worker)) continue;
      const { capacity } = worker.info;
      if (capacity > 0 && worker.inFlight >= capacity) isAnyBusy = true;
      else if (best === null || worker.inFlight < best.inFlight) best = worker;
    }
    return best ?? (isAnyBusy ? "all_busy" : "all_tried");
  }
}
