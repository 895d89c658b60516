/**
 * Deadlines of one node on one timer: unattached anchors, accept windows, watchdogs, heartbeats, lingers.
 *
 * A *lane* holds deadlines of one duration. Time never goes back, so each new deadline of a lane is its latest and the
 * lane is a plain queue: arming, cancelling and re-arming are constant work, and what is cancelled is gone at once.
 * Streams share lanes; only a lane that holds something is known here, so a lane can be dropped like any object.
 *
 * Deadlines that follow each other closely share a firing: hundreds of streams would else wake the event loop hundreds
 * of times a second to be looked at one by one. What that makes late is late by its lane's slack at the most.
 */
import type { Clock, TimerHandle } from "../clock.ts";

/** Slack is this part of a lane's duration, and no more than so many ms. */
const SLACK_PART = 1 / 32;
const MAX_SLACK_MS = 50;

/** The part of a lane that {@linkcode Deadlines} needs, whatever the owners are. */
interface AnyLane {
  readonly headAt: number;
  readonly slackMs: number;
  fireDue(now: number): void;
  clear(): void;
}

/** What a lane tells {@linkcode Deadlines}. */
interface LaneEvents {
  now(): number;
  armed(lane: AnyLane, at: number): void;
  disarmed(lane: AnyLane): void;
}

/** All deadlines of one node. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #events: LaneEvents;
  readonly #active = new Set<AnyLane>();
  #live = 0;
  #timer: TimerHandle | null = null;
  #timerAt = Infinity;
  #firing = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#events = {
      now: () => clock.now(),
      armed: (lane, at) => this.#armed(lane, at),
      disarmed: (lane) => this.#disarmed(lane),
    };
  }

  /** Pending deadlines over all lanes. */
  get liveEntries(): number {
    return this.#live;
  }

  /** Lanes with pending deadlines; what a timer costs when it fires is by these. */
  get activeLanes(): number {
    return this.#active.size;
  }

  /** Timers held: 1 while anything is pending, else 0. */
  get timersHeld(): number {
    return this.#timer === null ? 0 : 1;
  }

  /**
   * A new lane whose deadlines fall due `durationMs` (over 0), and up to the lane's slack later, after they are armed;
   * `onDue` gets the owner. Throws `RangeError`.
   */
  lane<T>(durationMs: number, onDue: (owner: T) => void): DeadlineLane<T> {
    if (!(durationMs > 0 && durationMs < Infinity)) {
      throw new RangeError(`Cannot make a deadline lane of "${durationMs}" ms: it must be finite and over 0`);
    }
    return new DeadlineLane<T>(durationMs, onDue, this.#events);
  }

  /** Forgets every deadline, without calling anyone, and the timer. */
  close(): void {
    for (const lane of this.#active) lane.clear();
  }

  #armed(lane: AnyLane, at: number): void {
    this.#active.add(lane);
    this.#live++;
    if (this.#firing || at >= this.#timerAt) return;
    this.#clearTimer();
    this.#setTimer(at);
  }

  #disarmed(lane: AnyLane): void {
    this.#live--;
    if (lane.headAt === Infinity) this.#active.delete(lane);
    // A timer that has become too early is left alone: it looks, finds nothing due, and is set again. That costs less
    // than moving it with every stream that ends. An idle node holds none.
    if (this.#live === 0) this.#clearTimer();
  }

  #setTimer(at: number): void {
    this.#timerAt = at;
    // At least 1 ms: a timer that fires a little early must not spin.
    this.#timer = this.#clock.setTimer(this.#fire, Math.max(1, Math.ceil(at - this.#clock.now())));
  }

  #clearTimer(): void {
    if (this.#timer === null) return;
    this.#clock.clearTimer(this.#timer);
    this.#timer = null;
    this.#timerAt = Infinity;
  }

  readonly #fire = (): void => {
    this.#timer = null;
    this.#timerAt = Infinity;
    this.#firing = true;
    try {
      const now = this.#clock.now();
      for (const lane of this.#active) lane.fireDue(now);
    } finally {
      this.#firing = false;
      let next = Infinity;
      const firedAt = this.#clock.now();
      for (const lane of this.#active) next = Math.min(next, Math.max(lane.headAt, firedAt + lane.slackMs));
      if (next < Infinity) this.#setTimer(next);
    }
  };
}

/** One deadline. Its owner keeps it to cancel or re-arm it; the fields are written by the lane alone. */
export interface DeadlineEntry<T> {
  prev: DeadlineEntry<T> | null;
  next: DeadlineEntry<T> | null;
  /** When it is due, by the node's clock. */
  at: number;
  readonly owner: T;
  /** The lane that holds it; null when it is not pending. */
  lane: DeadlineLane<T> | null;
}

/** Deadlines of one duration, in the order they were armed. Made by {@linkcode Deadlines.lane}. */
export class DeadlineLane<T> implements AnyLane {
  readonly durationMs: number;
  /** How late a deadline of this lane may be, ms. */
  readonly slackMs: number;
  readonly #onDue: (owner: T) => void;
  readonly #events: LaneEvents;
  #head: DeadlineEntry<T> | null = null;
  #tail: DeadlineEntry<T> | null = null;

  constructor(durationMs: number, onDue: (owner: T) => void, events: LaneEvents) {
    this.durationMs = durationMs;
    this.slackMs = Math.min(MAX_SLACK_MS, durationMs * SLACK_PART);
    this.#onDue = onDue;
    this.#events = events;
  }

  /** When the first deadline is due; `Infinity` when there is none. */
  get headAt(): number {
    return this.#head === null ? Infinity : this.#head.at;
  }

  /** A new deadline for `owner`, due the lane's duration from now. */
  arm(owner: T): DeadlineEntry<T> {
    const entry: DeadlineEntry<T> = { prev: null, next: null, at: 0, owner, lane: null };
    this.#append(entry);
    return entry;
  }

  /** Starts an entry anew, pending or not. Allowed from inside `onDue`. */
  rearm(entry: DeadlineEntry<T>): void {
    if (entry.lane === this) {
      // Only later than it was, so a timer that stands is early enough and is not touched.
      this.#unlink(entry);
      this.#link(entry);
      return;
    }
    if (entry.lane !== null) entry.lane.cancel(entry);
    this.#append(entry);
  }

  /** Forgets a deadline. One that is not pending here is ignored. */
  cancel(entry: DeadlineEntry<T>): void {
    if (entry.lane !== this) return;
    this.#unlink(entry);
    this.#events.disarmed(this);
  }

  #unlink(entry: DeadlineEntry<T>): void {
    if (entry.prev === null) this.#head = entry.next;
    else entry.prev.next = entry.next;
    if (entry.next === null) this.#tail = entry.prev;
    else entry.next.prev = entry.prev;
    entry.prev = entry.next = null;
    entry.lane = null;
  }

  #append(entry: DeadlineEntry<T>): void {
    this.#link(entry);
    this.#events.armed(this, entry.at);
  }

  #link(entry: DeadlineEntry<T>): void {
    entry.at = this.#events.now() + this.durationMs;
    entry.lane = this;
    entry.prev = this.#tail;
    if (this.#tail === null) this.#head = entry;
    else this.#tail.next = entry;
    this.#tail = entry;
  }

  /** Takes out every entry that is due at `now` and tells its owner. */
  fireDue(now: number): void {
    for (let entry = this.#head; entry !== null && entry.at <= now; entry = this.#head) {
      this.cancel(entry);
      this.#onDue(entry.owner);
    }
  }

  /** Forgets every deadline of this lane. */
  clear(): void {
    while (this.#head !== null) this.cancel(this.#head);
  }
}
