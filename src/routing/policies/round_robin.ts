import type { VirtualWorker } from "../worker.ts";
import type { Policy } from "./policy.ts";

/** Workers take turns, whatever they have under way. */
export class RoundRobin implements Policy {
  #turn = 0;

  choose(candidates: readonly VirtualWorker[]): VirtualWorker {
    return candidates[this.#turn++ % candidates.length]!;
  }
}
