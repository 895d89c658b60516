import type { VirtualWorker } from "../worker.ts";
import type { Policy, Random } from "./policy.ts";

/** Any worker, each as likely as the other. */
export class RandomChoice implements Policy {
  readonly #random: Random;

  constructor(random: Random) {
    this.#random = random;
  }

  choose(candidates: readonly VirtualWorker[]): VirtualWorker {
    return candidates[Math.floor(this.#random() * candidates.length)]!;
  }
}
