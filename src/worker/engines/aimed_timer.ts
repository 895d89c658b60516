/** One timer that comes as near to a given time as the runtime allows. */
import type { Clock, TimerHandle } from "../../clock.ts";

/** How late the runtime's timers come, whatever their duration: up to this much (Deno 2.9 on Linux), in ms. */
const LATENESS_MS = 1.2;
/** What is due within this time is done now: another timer would come later than that. */
const TOLERANCE_MS = 0.5;
/** Longest wait in place, ms: lateness, rounding to whole milliseconds, and a little. */
export const MAX_PAUSE_MS = 2.5;

/** Waits in place, without another turn of the event loop. */
export type Pause = (ms: number) => void;

/**
 * Calls back when the time it aims at comes: at most half a millisecond early, and about one late where the event loop
 * is free; to a tenth of one if it may pause.
 */
export class AimedTimer {
  readonly #clock: Clock;
  readonly #callback: () => void;
  readonly #pause: Pause | undefined;
  readonly #onFired = (): void => {
    this.#timer = null;
    const wait = this.#at - this.#clock.now();
    if (this.#pause !== undefined && wait > 0 && wait <= MAX_PAUSE_MS) this.#pause(wait);
    if (this.isDue(this.#at)) this.#callback();
    else this.#set();
  };
  #at = Infinity;
  #timer: TimerHandle | null = null;

  /** @param pause makes it exact, at the price that nothing else happens meanwhile */
  constructor(clock: Clock, callback: () => void, pause?: Pause) {
    this.#clock = clock;
    this.#callback = callback;
    this.#pause = pause;
  }

  /** Whether something planned for `at` is to be done now. */
  isDue(at: number): boolean {
    return at - this.#clock.now() <= TOLERANCE_MS;
  }

  /** Aims at another time, by the clock in ms, or with `Infinity` at none. */
  aim(at: number): void {
    if (at === this.#at && this.#timer !== null) return;
    this.#at = at;
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer);
    this.#timer = null;
    if (at !== Infinity) this.#set();
  }

  #set(): void {
    const wait = this.#at - this.#clock.now();
    const early = wait - LATENESS_MS;
    // At least a millisecond while time is left: behind a timer that came early, one of none would spin.
    const ms = wait <= 0 ? 0 : Math.max(1, this.#pause === undefined ? Math.round(early) : Math.floor(early));
    this.#timer = this.#clock.setTimer(this.#onFired, ms);
  }
}
