/**
 * Time, as everything below the modes sees it. `mux`, `messenger` and the in-memory transport never read a clock of
 * their own, so that a test can run hours of protocol in a millisecond, the same way each time.
 */

import { setImmediate } from "node:timers";

/** Names one pending timer; meaningful only to the clock that made it. */
export type TimerHandle = unknown;

/** A monotonic clock with timers. */
export interface Clock {
  /** Milliseconds since an arbitrary start; never goes back. */
  now(): number;
  /** Calls `callback` once, `ms` milliseconds from now or a little later. */
  setTimer(callback: () => void, ms: number): TimerHandle;
  /** Forgets a pending timer. A handle that has fired is ignored. */
  clearTimer(handle: TimerHandle): void;
  /** Calls `callback` once, after the I/O events that are ready now have been handled. Not cancellable. */
  defer(callback: () => void): void;
}

/** Waits for the end of this turn's I/O: one immediate for all, as each costs like a small timer. */
let deferred: (() => void)[] = [];

function runDeferred(): void {
  const batch = deferred;
  deferred = [];
  let at = 0;
  try {
    while (at < batch.length) batch[at++]!();
  } finally {
    // After a throw, which is reported as that of any timer: those behind it still have their turn, and in their order.
    if (at < batch.length) {
      if (deferred.length === 0) setImmediate(runDeferred);
      deferred = [...batch.slice(at), ...deferred];
    }
  }
}

/** The process's own clock. Timers do not keep the process alive: whatever must stay up holds a listener. */
export const systemClock: Clock = {
  now: () => performance.now(),
  setTimer: (callback, ms) => {
    // Whole milliseconds: the runtime keeps a list of timers per duration, and fractions would each make one.
    const id = setTimeout(callback, Math.ceil(ms));
    Deno.unrefTimer(id);
    return id;
  },
  clearTimer: (handle) => clearTimeout(handle as number),
  defer: (callback) => {
    if (deferred.push(callback) === 1) setImmediate(runDeferred);
  },
};
