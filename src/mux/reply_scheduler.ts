/**
 * When replies that carry nothing but credit are written: a little later than they could be, so that they share a
 * batch (reply linger), and never more often than the visit floor allows. One timer for all lanes of a mux.
 *
 * A timer wakes the event loop, which costs as much as the records of many streams. So none is set when waiting gains
 * nothing, and the replies leave at the end of the turn that drained the records:
 *
 * - when the loop is so busy that the linger is over by then;
 * - when nothing more of the same lane has come during the last lingers (a worker that sends a step at once).
 */
import type { Clock, TimerHandle } from "../clock.ts";

/** What a lane is to the scheduler. */
export interface ReplyingLane {
  /** Whether there is still something to write. */
  readonly owesReplies: boolean;
  /** When replies last went out, by the clock; written by the scheduler. */
  lastReplyAt: number;
  /** Writes what is owed. */
  writeReplies(): void;
}

/** A visit that comes this many lingers after it was asked for: its timer was waiting for the loop, not for the time. */
const BUSY_LINGERS = 4;
/** Lingers in a row without company after which the next one is not waited for. */
const MAX_ALONE = 8;

/** Visits lanes that owe credit. */
export class ReplyScheduler {
  readonly #clock: Clock;
  readonly #lingerMs: number;
  readonly #floorMs: number;
  #due = new Set<ReplyingLane>();
  #timer: TimerHandle | null = null;
  /** When the linger of the wanted visit begins, by the clock in ms (ahead while the floor holds it back); -1: none is. */
  #wantedMs = -1;
  #isLoopBusy = false;
  /** Reads that have ended, and how many had when that linger was set. */
  #reads = 0;
  #wantedAtRead = 0;
  #hasCompany = false;
  /** Lingers in a row that brought no company. */
  #alone = 0;

  constructor(clock: Clock, lingerMs: number, floorMs: number) {
    this.#clock = clock;
    this.#lingerMs = lingerMs;
    this.#floorMs = floorMs;
  }

  /** Lanes that wait for their visit. */
  get pending(): number {
    return this.#due.size;
  }

  /** What comes now comes with another read. */
  readEnded(): void {
    this.#reads++;
  }

  /** The lane owes credit. Adding it again before its visit changes nothing. */
  add(lane: ReplyingLane): void {
    const lanes = this.#due.size;
    this.#due.add(lane);
    if (this.#wantedMs >= 0) {
      // Company is what shares a batch: more of the same lane, from another read.
      if (this.#due.size === lanes && this.#reads !== this.#wantedAtRead) this.#hasCompany = true;
      return;
    }
    const now = this.#clock.now();
    this.#want(now);
    // It would have shared a batch with the last ones, had they waited.
    if (now - lane.lastReplyAt < this.#lingerMs) this.#alone = 0;
    if (this.#isLoopBusy || this.#alone >= MAX_ALONE) this.#clock.defer(this.#onTurnEnd);
    else this.#setTimer(this.#lingerMs);
  }

  remove(lane: ReplyingLane): void {
    this.#due.delete(lane);
    if (this.#due.size > 0 || this.#timer === null) return;
    this.#clock.clearTimer(this.#timer);
    this.#timer = null;
    this.#wantedMs = -1;
  }

  #want(lingerFromMs: number): void {
    this.#wantedMs = lingerFromMs;
    this.#wantedAtRead = this.#reads;
    this.#hasCompany = false;
  }

  #setTimer(ms: number): void {
    this.#timer = this.#clock.setTimer(this.#onTimer, ms);
  }

  readonly #onTimer = (): void => {
    this.#timer = null;
    const now = this.#clock.now();
    this.#isLoopBusy = now - this.#wantedMs >= BUSY_LINGERS * this.#lingerMs;
    this.#alone = this.#hasCompany ? 0 : this.#alone + 1;
    this.#visit(now);
  };

  readonly #onTurnEnd = (): void => {
    if (this.#due.size === 0) {
      this.#wantedMs = -1;
      return;
    }
    const now = this.#clock.now();
    const left = this.#lingerMs - (now - this.#wantedMs);
    this.#isLoopBusy = left <= 0;
    if (left <= 0 || this.#alone >= MAX_ALONE) this.#visit(now);
    else this.#setTimer(left);
  };

  #visit(now: number): void {
    let wait = Infinity;
    let thrown: { readonly error: unknown } | null = null;
    for (const lane of this.#due) {
      const allowedAt = lane.lastReplyAt + this.#floorMs;
      // A timer may fire a fraction of a millisecond early; that is no reason for another one.
      if (allowedAt - now >= 0.5) {
        wait = Math.min(wait, allowedAt - now);
        continue;
      }
      this.#due.delete(lane);
      // Data that went out in the meantime may have carried everything.
      if (!lane.owesReplies) continue;
      lane.lastReplyAt = now;
      try {
        lane.writeReplies();
      } catch (error) {
        // The other lanes have their turn, now and from now on.
        thrown ??= { error };
      }
    }
    this.#wantedMs = -1;
    if (this.#due.size > 0) {
      const delay = Math.max(wait, this.#lingerMs);
      this.#want(now + delay - this.#lingerMs);
      this.#setTimer(delay);
    }
    if (thrown !== null) throw thrown.error;
  }
}
