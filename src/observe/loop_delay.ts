/**
 * How late the event loop of this isolate runs: one interval timer, whose own lateness is what everything else on the
 * loop suffers too. prom-client's figure is no use here: on Deno it comes to a few microseconds whatever the loop does.
 */
import { Histogram } from "./histogram.ts";
import type { Collectors, Labels } from "./metrics.ts";

/** A block of the loop shows to within this, ms. Each look wakes a loop that would sleep, so it looks no more often. */
const INTERVAL_MS = 40;
/** Upper bounds, inclusive, in seconds. */
const BOUNDS = Object.freeze([
  0.0005,
  0.001,
  0.0015,
  0.002,
  0.003,
  0.005,
  0.0075,
  0.01,
  0.015,
  0.02,
  0.03,
  0.04,
  0.05,
  0.075,
  0.1,
  0.15,
  0.2,
  0.3,
  0.5,
  1,
  2,
  5,
]);

/** Delays of one interval, in seconds; percentiles are upper bounds of their bucket, and at most `max`. */
export interface LoopDelayFigures {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** Measures from `start` to `stop`, in seconds. */
export class LoopDelay extends Histogram {
  /** What had been counted when figures were last taken. */
  readonly #taken: Float64Array = new Float64Array(BOUNDS.length + 1);
  #max = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor() {
    super(BOUNDS);
  }

  /** Starts to measure. The timer keeps the isolate alive until `stop`. */
  start(): void {
    let last = performance.now();
    this.#timer ??= setInterval(() => {
      const now = performance.now();
      this.record((now - last - INTERVAL_MS) / 1_000);
      last = now;
    }, INTERVAL_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Counts one delay, in seconds; the clock's rounding may make it negative. */
  record(seconds: number): void {
    const delay = seconds > 0 ? seconds : 0;
    this.observe(delay);
    if (delay > this.#max) this.#max = delay;
  }

  /** Figures since they were last taken. */
  take(): LoopDelayFigures {
    const since = this.counts.map((count, index) => count - this.#taken[index]!);
    const total = since.reduce((sum, count) => sum + count, 0);
    const max = this.#max;
    this.#taken.set(this.counts);
    this.#max = 0;
    const at = (part: number) => {
      let rest = total * part;
      for (let index = 0; index < BOUNDS.length; index++) {
        rest -= since[index]!;
        if (rest <= 0) return Math.min(BOUNDS[index]!, max);
      }
      return max;
    };
    return { p50: at(0.5), p99: at(0.99), max };
  }
}

/** Adds the series; once per isolate. A scrape starts a new interval for the percentiles. */
export function addLoopDelayMetrics(collectors: Collectors, delay: LoopDelay, labels: Labels): void {
  collectors.addHistogram(
    "tokenplane_eventloop_delay_seconds",
    "How late a timer of the event loop ran.",
    (emit) => emit(delay, labels),
  );
  let figures: LoopDelayFigures = { p50: 0, p99: 0, max: 0 };
  // Read in the order of registration, so the first one takes for all three.
  for (const [name, help] of [["p50", "Median"], ["p99", "99th percentile"], ["max", "Maximum"]] as const) {
    collectors.add(
      `tokenplane_eventloop_lag_${name}_seconds`,
      `${help} of the event loop's delay since the last scrape.`,
      "gauge",
      (emit) => {
        if (name === "p50") figures = delay.take();
        emit(figures[name], labels);
      },
    );
  }
}
