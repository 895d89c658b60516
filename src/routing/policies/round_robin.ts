import type { Worker } from "../worker_table.ts";
import type { Policy } from "./policy.ts";

/** Workers take turns, whatever they have under way. */
export class RoundRobin implements Policy {
  #turn = 0;

  choose(candidates: readonly Worker[]): Worker {
    return candidates[this.#turn++ % candidates.length]!;
  }
}
