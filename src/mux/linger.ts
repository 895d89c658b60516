/** The linger of one open batch: one deadline, used again and again. */
import type { Flushable } from "./context.ts";
import type { DeadlineEntry, DeadlineLane } from "./deadlines.ts";

/** Has its target flushed once the linger has passed. */
export class Linger {
  readonly #lane: DeadlineLane<Flushable>;
  readonly #target: Flushable;
  #entry: DeadlineEntry<Flushable> | null = null;

  constructor(lane: DeadlineLane<Flushable>, target: Flushable) {
    this.#lane = lane;
    this.#target = target;
  }

  /** From now. */
  start(): void {
    if (this.#entry === null) this.#entry = this.#lane.arm(this.#target);
    else this.#lane.rearm(this.#entry);
  }

  stop(): void {
    if (this.#entry !== null) this.#lane.cancel(this.#entry);
  }
}
