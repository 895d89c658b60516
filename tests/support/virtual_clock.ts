/** A clock that only moves when a test says so: the same schedule of callbacks, every time. */
import type { Clock, TimerHandle } from "../../src/clock.ts";

interface Timer {
  readonly due: number;
  /** Timers due at the same instant fire in the order they were set. */
  readonly order: number;
  callback: (() => void) | null;
}

/** Deterministic {@linkcode Clock}. Time moves only inside `advance…`, `runUntilIdle…` and `skip`. */
export class VirtualClock implements Clock {
  #now: number;
  #order = 0;
  #live = 0;
  readonly #heap: Timer[] = [];
  #deferred: (() => void)[] = [];

  /** @param start what `now()` says at first, in ms */
  constructor(start = 0) {
    this.#now = start;
  }

  now(): number {
    return this.#now;
  }

  /** Timers set and neither fired nor cleared. */
  get pendingTimers(): number {
    return this.#live;
  }

  /** Deferred callbacks that have not run. */
  get pendingDeferred(): number {
    return this.#deferred.length;
  }

  setTimer(callback: () => void, ms: number): TimerHandle {
    const timer: Timer = { due: this.#now + Math.max(0, ms), order: this.#order++, callback };
    this.#live++;
    this.#push(timer);
    return timer;
  }

  clearTimer(handle: TimerHandle): void {
    const timer = handle as Timer | null | undefined;
    if (!timer?.callback) return;
    timer.callback = null;
    this.#live--;
  }

  defer(callback: () => void): void {
    this.#deferred.push(callback);
  }

  /** Runs what is deferred, and what that defers, without moving time. */
  runDeferred(): void {
    for (let round = 0; this.#deferred.length > 0; round++) {
      if (round > 100_000) {
        throw new Error("Cannot run deferred callbacks: they defer one another without end");
      }
      const batch = this.#deferred;
      this.#deferred = [];
      for (const callback of batch) callback();
    }
  }

  /** Moves time forward by `ms` and fires nothing: a program that works for so long. */
  skip(ms: number): void {
    this.#now += ms;
  }

  /** Moves time forward by `ms`, firing what comes due in order; deferred callbacks run after each timer. */
  advance(ms: number): void {
    const until = this.#now + ms;
    this.runDeferred();
    while (this.#step(until)) this.runDeferred();
    this.#now = until;
  }

  /**
   * Fires timers, however late they are due, until none is left or `limitMs` of virtual time have passed.
   * Returns the ms that passed. Periodic timers never end by themselves: that is what the limit is for.
   */
  runUntilIdle(limitMs = 3_600_000): number {
    const start = this.#now;
    this.runDeferred();
    while (this.#step(start + limitMs)) this.runDeferred();
    return this.#now - start;
  }

  /** Lets promises settle and deferred callbacks run, without moving time. */
  async settle(): Promise<void> {
    for (let quiet = 0; quiet < 20; quiet++) {
      await Promise.resolve();
      if (this.#deferred.length > 0) {
        this.runDeferred();
        quiet = 0;
      }
    }
  }

  /** As `advance`, and lets promises settle before, between and after the timers. */
  async advanceAsync(ms: number): Promise<void> {
    const until = this.#now + ms;
    await this.settle();
    while (this.#step(until)) await this.settle();
    this.#now = until;
  }

  /** As `runUntilIdle`, and lets promises settle before, between and after the timers. */
  async runUntilIdleAsync(limitMs = 3_600_000): Promise<number> {
    const start = this.#now;
    await this.settle();
    while (this.#step(start + limitMs)) await this.settle();
    return this.#now - start;
  }

  /** Fires the earliest live timer due by `until`; false when there is none. */
  #step(until: number): boolean {
    for (;;) {
      const timer = this.#heap[0];
      if (timer === undefined || (timer.callback !== null && timer.due > until)) return false;
      this.#pop();
      if (timer.callback === null) continue;
      const callback = timer.callback;
      timer.callback = null;
      this.#live--;
      this.#now = Math.max(this.#now, timer.due);
      callback();
      return true;
    }
  }

  #push(timer: Timer): void {
    const heap = this.#heap;
    let at = heap.push(timer) - 1;
    while (at > 0) {
      const up = (at - 1) >> 1;
      const parent = heap[up]!;
      if (!isEarlier(timer, parent)) break;
      heap[at] = parent;
      at = up;
    }
    heap[at] = timer;
  }

  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop()!;
    const size = heap.length;
    if (size === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= size) break;
      if (child + 1 < size && isEarlier(heap[child + 1]!, heap[child]!)) child++;
      if (!isEarlier(heap[child]!, last)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = last;
  }
}

function isEarlier(a: Timer, b: Timer): boolean {
  return a.due < b.due || (a.due === b.due && a.order < b.order);
}
