/** When a batch is written, as state: no timer and no clock of its own. */
import type { Clock } from "../clock.ts";
import type { FlushPolicy } from "./options.ts";

/** The flush decision of one batcher. */
export class FlushGate {
  /** Whether every wake writes what it has. */
  readonly onAdmission: boolean;
  readonly #lingerMs: number | null;
  #staged = 0;
  #urgent = false;
  #kicked = false;
  #decided = false;
  #oldest = 0;

  constructor(policy: FlushPolicy) {
    this.onAdmission = policy.kind === "auto" && policy.onAdmission;
    this.#lingerMs = policy.kind === "auto" ? policy.maxLingerMs : null;
  }

  /** Records staged since the last write. */
  get count(): number {
    return this.#staged;
  }

  /** A record has been staged; true for the first one, from which the linger runs (only then is the clock read). */
  staged(clock: Pick<Clock, "now">): boolean {
    if (this.#staged++ > 0) return false;
    if (this.#lingerMs !== null) this.#oldest = clock.now();
    return true;
  }

  /** What is staged, or owed, bears liveness (open, close, credit, terminal, beat): no policy holds it. */
  urgent(): void {
    this.#urgent = true;
  }

  /**
   * Asks for everything staged so far to be written, whatever the policy. One bit, however often; it lasts until a
   * write that {@linkcode shouldWrite} has decided, so a batch that went because it was full does not swallow it.
   */
  kick(): void {
    this.#kicked = true;
  }

  /** The decision at the end of a wake. A kick that finds nothing staged is spent here. */
  shouldWrite(now: number): boolean {
    if (this.#staged === 0) this.#kicked = false;
    this.#decided = this.#urgent ||
      (this.#staged > 0 && (this.#kicked || this.onAdmission || this.#overdue(now)));
    return this.#decided;
  }

  /** The open batch has been handed over, by decision or because it was full; what follows starts a new one. */
  written(): void {
    if (this.#decided) this.#kicked = false;
    this.#decided = false;
    this.#staged = 0;
    this.#urgent = false;
  }

  /** The open batch has been thrown away. */
  discarded(): void {
    this.#decided = true;
    this.written();
  }

  /** When what is staged has to go at the latest, by the clock of `staged`; null when no linger runs. */
  deadline(): number | null {
    return this.#staged === 0 || this.#lingerMs === null ? null : this.#oldest + this.#lingerMs;
  }

  #overdue(now: number): boolean {
    const deadline = this.deadline();
    return deadline !== null && now >= deadline;
  }
}
