/** A warning that may come in floods: one line per interval, which counts those left out since the line before. */
import type { LogFields, Logger } from "./log.ts";

/** Least time between two lines, ms. */
const INTERVAL_MS = 1_000;

/** See above. */
export class LimitedWarning {
  readonly #log: Logger;
  readonly #now: () => number;
  #nextAtMs = -Infinity;
  #suppressed = 0;

  /** @param now monotonic, in ms */
  constructor(log: Logger, now: () => number) {
    this.#log = log;
    this.#now = now;
  }

  warn(event: string, fields: LogFields): void {
    const now = this.#now();
    if (now < this.#nextAtMs) {
      this.#suppressed++;
      return;
    }
    this.#nextAtMs = now + INTERVAL_MS;
    this.#log.warn(event, { ...fields, ...(this.#suppressed > 0 ? { suppressed: this.#suppressed } : {}) });
    this.#suppressed = 0;
  }
}
