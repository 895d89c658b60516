/**
 * When replies that carry nothing but credit are written: a little later than they could be, so that they share a
 * batch (reply linger), and never more often than the visit floor allows. One timer for all lanes of a mux.
 */
import type { Clock, TimerHandle } from "../clock.ts";
import type { MuxLane } from "./lane.ts";

/** Visits lanes that owe credit. */
export class ReplyScheduler {
  readonly #clock: Clock;
  readonly #lingerMs: number;
  readonly #floorMs: number;
  #due = new Set<MuxLane>();
  #timer: TimerHandle | null = null;

  constructor(clock: Clock, lingerMs: number, floorMs: number) {
    this.#clock = clock;
    this.#lingerMs = lingerMs;
    this.#floorMs = floorMs;
  }

  /** Lanes that wait for their visit. */
  get pending(): number {
    return this.#due.size;
  }

  /** The lane owes credit. Adding it again before its visit changes nothing. */
  add(lane: MuxLane): void {
    this.#due.add(lane);
    if (this.#timer === null) this.#timer = this.#clock.setTimer(this.#visit, this.#lingerMs);
  }

  remove(lane: MuxLane): void {
    this.#due.delete(lane);
    if (this.#due.size === 0 && this.#timer !== null) {
      this.#clock.clearTimer(this.#timer);
      this.#timer = null;
    }
  }

  readonly #visit = (): void => {
    this.#timer = null;
    const now = this.#clock.now();
    let wait = Infinity;
    for (const lane of this.#due) {
      const allowedAt = lane.lastReplyAt + this.#floorMs;
      // A timer may fire a fraction of a millisecond early; that is no reason for another one.
      if (allowedAt - now >= 0.5) {
        wait = Math.min(wait, allowedAt - now);
        continue;
      }
      this.#due.delete(lane);
      // Data that went out in the meantime may have carried everything.
      if (!lane.ingress.replies.owed) continue;
      lane.lastReplyAt = now;
      lane.writeReplies();
    }
    if (this.#due.size > 0) this.#timer = this.#clock.setTimer(this.#visit, Math.max(wait, this.#lingerMs));
  };
}
