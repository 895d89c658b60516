/**
 * Tells the sink that reads are over: once for all connections that one turn of the event loop brought bytes for, so
 * that what they brought for many streams leaves together.
 */
import type { TurnBudget } from "./turn_budget.ts";

/** Shared by all that read in one isolate. */
export class ReadEnds {
  readonly #tell: () => void;
  readonly #turns: TurnBudget;
  readonly #now: () => number;
  /** Pending while reads of this turn are taken. */
  #end: Promise<void> | null = null;

  /** @param tell must not throw */
  constructor(tell: () => void, turns: TurnBudget, now: () => number) {
    this.#tell = tell;
    this.#turns = turns;
    this.#now = now;
  }

  /**
   * A read has been taken; resolves when the sink has been told. Until then its reader must not ask for more: the time
   * that the sink takes would look like a wait for bytes.
   */
  note(): Promise<void> {
    // Behind the reads that were answered together with this one: they go on in microtasks that already wait.
    return this.#end ??= Promise.resolve().then(this.#run);
  }

  readonly #run = (): void => {
    this.#end = null;
    const startedMs = this.#now();
    this.#tell();
    this.#turns.count(this.#now() - startedMs);
  };
}
