/**
 * Deadlines of one node on one timer: unattached anchors, accept windows, watchdogs, heartbeats.
 *
 * A *lane* holds deadlines of one duration. Time never goes back, so each new deadline of a lane is its latest and the
 * lane is a plain queue: arming, cancelling and re-arming are constant work, and what is cancelled is gone at once.
 * There are as many lanes as durations a node is configured with; lanes are never made per stream or per peer.
 */
import type { Clock, TimerHandle } from "../clock.ts";

/** One deadline. Owners keep it to cancel or re-arm it; its fields belong to this file. */
export interface DeadlineEntry<T> {
  prev: DeadlineEntry<T> | null;
  next: DeadlineEntry<T> | null;
  /** When it is due, by the node's clock. */
  at: number;
  readonly owner: T;
  /** The lane that holds it; null when it is not pending. */
  lane: DeadlineLane<T> | null;
}

/** The part of a lane that {@linkcode Deadlines} needs, whatever the owners are. */
interface AnyLane {
  readonly headAt: number;
  fireHead(): void;
  clear(): void;
}

/** All deadlines of one node. */
export class Deadlines {
  readonly #clock: Clock;
  readonly #lanes: AnyLane[] = [];
  #live = 0;
  #timer: TimerHandle = null;
  #timerAt = Infinity;
  #firing = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Pending deadlines over all lanes. */
  get liveEntries(): number {
    return this.#live;
  }

  /** Timers held: 1 while anything is pending, else 0. */
  get timersHeld(): number {
    return this.#timer === null ? 0 : 1;
  }

  /** A new lane whose deadlines fall due `durationMs` (over 0) after they are armed. `onDue` gets the owner. */
  lane<T>(durationMs: number, onDue: (owner: T) => void): DeadlineLane<T> {
    if (!(durationMs > 0)) {
      throw new RangeError(`Cannot make a deadline lane of "${durationMs}" ms: it must be over 0`);
    }
    const lane = new DeadlineLane<T>(
      durationMs,
      onDue,
      this.#clock,
      (change, at) => this.#changed(change, at),
    );
    this.#lanes.push(lane);
    return lane;
  }

  /** Forgets every deadline, without calling anyone, and the timer. */
  close(): void {
    for (const lane of this.#lanes) lane.clear();
  }

  /** A lane has one entry more (`at` says when it is due) or one less. */
  #changed(change: 1 | -1 | 0, at: number): void {
    this.#live += change;
    if (this.#firing) return;
    if (change < 0) {
      // A timer that is too early is left alone: it looks, finds nothing due, and is set again.
      if (this.#live === 0) this.#disarm();
    } else if (at < this.#timerAt) {
      this.#disarm();
      this.#arm(at);
    }
  }

  #arm(at: number): void {
    this.#timerAt = at;
    // At least 1 ms: a timer that fires a little early must not spin.
    this.#timer = this.#clock.setTimer(this.#fire, Math.max(1, Math.ceil(at - this.#clock.now())));
  }

  #disarm(): void {
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
      for (let lane = this.#earliest(); lane !== null && lane.headAt <= now; lane = this.#earliest()) {
        lane.fireHead();
      }
    } finally {
      this.#firing = false;
      const next = this.#earliest();
      if (next !== null) this.#arm(next.headAt);
    }
  };

  #earliest(): AnyLane | null {
    let earliest: AnyLane | null = null;
    for (const lane of this.#lanes) {
      if (lane.headAt < (earliest === null ? Infinity : earliest.headAt)) earliest = lane;
    }
    return earliest;
  }
}

/** Deadlines of one duration, in the order they were armed. Made by {@linkcode Deadlines.lane}. */
export class DeadlineLane<T> implements AnyLane {
  readonly durationMs: number;
  readonly #onDue: (owner: T) => void;
  readonly #clock: Clock;
  readonly #changed: (change: 1 | -1 | 0, at: number) => void;
  #head: DeadlineEntry<T> | null = null;
  #tail: DeadlineEntry<T> | null = null;

  constructor(
    durationMs: number,
    onDue: (owner: T) => void,
    clock: Clock,
    changed: (change: 1 | -1 | 0, at: number) => void,
  ) {
    this.durationMs = durationMs;
    this.#onDue = onDue;
    this.#clock = clock;
    this.#changed = changed;
  }

  /** When the first deadline is due; `Infinity` when there is none. */
  get headAt(): number {
    return this.#head === null ? Infinity : this.#head.at;
  }

  /** A new deadline, `durationMs` from now. */
  arm(owner: T): DeadlineEntry<T> {
    const entry: DeadlineEntry<T> = { prev: null, next: null, at: 0, owner, lane: null };
    this.#append(entry);
    return entry;
  }

  /** Starts an entry of this lane anew, pending or not (an owner may re-arm from inside `onDue`). */
  rearm(entry: DeadlineEntry<T>): void {
    if (entry.lane !== null) entry.lane.cancel(entry);
    this.#append(entry);
  }

  /** Forgets a deadline. One that is not pending here is ignored. */
  cancel(entry: DeadlineEntry<T>): void {
    if (entry.lane !== this) return;
    this.#unlink(entry);
    this.#changed(-1, entry.at);
  }

  /** Takes the first entry out and tells its owner. Called by {@linkcode Deadlines} when it is due. */
  fireHead(): void {
    const entry = this.#head;
    if (entry === null) return;
    this.cancel(entry);
    this.#onDue(entry.owner);
  }

  /** Forgets every deadline of this lane. */
  clear(): void {
    while (this.#head !== null) this.cancel(this.#head);
  }

  #append(entry: DeadlineEntry<T>): void {
    entry.at = this.#clock.now() + this.durationMs;
    entry.lane = this;
    entry.prev = this.#tail;
    if (this.#tail === null) this.#head = entry;
    else this.#tail.next = entry;
    this.#tail = entry;
    this.#changed(1, entry.at);
  }

  #unlink(entry: DeadlineEntry<T>): void {
    if (entry.prev === null) this.#head = entry.next;
    else entry.prev.next = entry.next;
    if (entry.next === null) this.#tail = entry.prev;
    else entry.next.prev = entry.prev;
    entry.prev = entry.next = null;
    entry.lane = null;
  }
}
