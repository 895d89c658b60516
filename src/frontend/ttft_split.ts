/**
 * Where the time of a request went, by one monotonic clock:
 *
 * | part | from | to |
 * |---|---|---|
 * | intake | its head has been read | the first worker is asked |
 * | queued | | the worker that answers has accepted it, or its first record is here |
 * | prefill | | its first record is here |
 * | decode | | the end of its response has been written |
 *
 * `e2e` is the sum. An acceptance that comes behind the first record, on another lane, tells nothing: `prefill` is 0 then.
 */
import { Histogram } from "../observe/histogram.ts";
import type { Logger } from "../observe/log.ts";

const NEVER = -1;
const BOUNDS = [
  0.0005,
  0.001,
  0.0022,
  0.0047,
  0.01,
  0.022,
  0.047,
  0.1,
  0.22,
  0.47,
  1,
  2.2,
  4.7,
  10,
  22,
  48,
  100,
  220,
  480,
];

/** Why a row is not shown as figures. */
export type SplitFault = "unstamped" | "negative";

/** Sums over finished requests; durations in seconds. */
export class SplitStats {
  readonly intake: Histogram = new Histogram(BOUNDS);
  readonly queue: Histogram = new Histogram(BOUNDS);
  readonly prefill: Histogram = new Histogram(BOUNDS);
  readonly decode: Histogram = new Histogram(BOUNDS);
  /** Requests without figures: `unstamped` ended before their first record, `negative` ones are a bug. */
  readonly faults: Record<SplitFault, number> = { unstamped: 0, negative: 0 };
}

/** The times of one request, in ms of the clock. */
export class TtftSplit {
  readonly #arrivedMs: number;
  #dispatchedMs = NEVER;
  #acceptedMs = NEVER;
  #firstMs = NEVER;

  constructor(arrivedMs: number) {
    this.#arrivedMs = arrivedMs;
  }

  /** A worker is asked; only the first counts. */
  dispatched(now: number): void {
    if (this.#dispatchedMs === NEVER) this.#dispatchedMs = now;
  }

  /** A worker has accepted it; the last one before the first record counts. */
  accepted(now: number): void {
    if (this.#firstMs === NEVER) this.#acceptedMs = now;
  }

  firstRecord(now: number): void {
    this.#firstMs = now;
    if (this.#acceptedMs === NEVER) this.#acceptedMs = now;
  }

  /** The request is over: counts it and, with a log, shows it. Figures that cannot be right are said to be so. */
  finish(now: number, stats: SplitStats, id: string, log: Logger | null): void {
    const marks = [this.#arrivedMs, this.#dispatchedMs, this.#acceptedMs, this.#firstMs, now] as const;
    if (marks.includes(NEVER)) {
      stats.faults.unstamped++;
      const missing = MARKS.filter((_, index) => marks[index] === NEVER).join(",");
      log?.info("TTFTSPLIT", { rid: id, unstamped: missing, e2e: round(now - this.#arrivedMs) });
      return;
    }
    const intake = marks[1] - marks[0];
    const queued = marks[2] - marks[1];
    const prefill = marks[3] - marks[2];
    const decode = marks[4] - marks[3];
    if (intake < 0 || queued < 0 || prefill < 0 || decode < 0) {
      stats.faults.negative++;
      log?.warn("TTFTSPLIT", { rid: id, negative: [intake, queued, prefill, decode].map(round).join(",") });
      return;
    }
    stats.intake.observe(intake / 1_000);
    stats.queue.observe(queued / 1_000);
    stats.prefill.observe(prefill / 1_000);
    stats.decode.observe(decode / 1_000);
    log?.info("TTFTSPLIT", {
      rid: id,
      intake: round(intake),
      queued: round(queued),
      prefill: round(prefill),
      decode: round(decode),
      e2e: round(now - this.#arrivedMs),
    });
  }
}

const MARKS = ["arrived", "dispatched", "accepted", "first_record", "finished"] as const;

/** Microseconds are enough. */
function round(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}
