/**
 * How much of one turn of the event loop reading may take.
 *
 * A socket with bytes waiting answers a read at once, and the runtime lets 128 such reads pass before anything else gets
 * its turn: with a backlog of tokens that is a second in which no timer fires, no client is accepted and no heartbeat
 * leaves. So whoever reads counts what it did, and steps back when the turn has had enough.
 */

import type { Clock } from "../../src/clock.ts";

/** Work after which readers step back, ms; one read's work comes on top. */
const MAX_TURN_MS = 10;

/** Shared by all that read in one isolate. */
export class TurnBudget {
  readonly #clock: Pick<Clock, "defer">;
  readonly #maxMs: number;
  /** All work that was ever counted, ms: who compares it tells his own wait from the work of others. */
  workMs = 0;
  /** Counted since the last turn that was looked for. */
  #usedMs = 0;
  #isLooking = false;
  #turn: PromiseWithResolvers<void> | null = null;

  constructor(clock: Pick<Clock, "defer">, maxMs: number = MAX_TURN_MS) {
    this.#clock = clock;
    this.#maxMs = maxMs;
  }

  /** What a reader awaits, if it is not null, before it goes on. */
  next(): Promise<void> | null {
    if (this.#usedMs < this.#maxMs) return null;
    this.#turn ??= Promise.withResolvers<void>();
    return this.#turn.promise;
  }

  /** Counts work, in ms. */
  count(ms: number): void {
    this.workMs += ms;
    this.#usedMs += ms;
    // To look for the next turn costs something, so it waits until there is a reason.
    if (!this.#isLooking && this.#usedMs >= this.#maxMs / 2) {
      this.#isLooking = true;
      this.#clock.defer(this.#onTurn);
    }
  }

  readonly #onTurn = (): void => {
    const turn = this.#turn;
    this.#usedMs = 0;
    this.#isLooking = false;
    this.#turn = null;
    turn?.resolve();
  };
}
