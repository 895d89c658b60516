import type { Worker } from "../worker_table.ts";
import type { Policy, Random } from "./policy.ts";

/** Any worker, each as likely as the other. */
export class RandomChoice implements Policy {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  choose(candidates: readonly Worker[]): Worker {
    return candidates[Math.floor(this.#random() * candidates.length)]!;
  }
}
