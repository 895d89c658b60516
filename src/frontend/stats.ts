/** Counts of one frontend: plain fields, written on the path, read at scrape. */
import type { ErrorCode } from "../errors.ts";
import { Histogram } from "../observe/histogram.ts";
import { newOutcomeCounts, type Outcome } from "../outcome.ts";
import type { Endpoint } from "./endpoints.ts";
import { SplitStats } from "./ttft_split.ts";

/** Statuses that are counted one by one; others only by their class. */
const STATUSES = Object.freeze(
  [200, 400, 401, 403, 404, 413, 422, 429, 499, 500, 502, 503, 504, 529] as const,
);
const STATUS_CLASSES = Object.freeze(["2xx", "3xx", "4xx", "5xx"] as const);

/** A count per status, and per class of what is not among them: few, whatever workers answer. */
export class StatusCounts {
  readonly #counts = new Map<string, number>([...STATUSES, ...STATUS_CLASSES].map((name) => [`${name}`, 0]));

  /** @param status 200 to 599 */
  count(status: number): void {
    const name = this.#counts.has(`${status}`) ? `${status}` : `${Math.trunc(status / 100)}xx`;
    this.#counts.set(name, this.#counts.get(name)! + 1);
  }

  entries(): Iterable<[string, number]> {
    return this.#counts.entries();
  }
}

/** Requests of one endpoint and kind. */
export class RequestStats {
  started = 0;
  /** Requests that a worker was asked for and did not refuse, by how they ended: exactly one each. */
  readonly outcomes: Record<Outcome, number> = newOutcomeCounts();
  readonly firstTokenSeconds = new Histogram(
    [0.001, 0.0022, 0.0047, 0.01, 0.022, 0.047, 0.1, 0.22, 0.47, 1, 2.2, 4.7, 10, 22, 48, 100, 220, 480],
  );
  readonly durationSeconds = new Histogram([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]);
}

/** One frontend's counts. */
export class FrontendStats {
  readonly requests: Record<Endpoint, { readonly stream: RequestStats; readonly unary: RequestStats }> = {
    chat_completions: { stream: new RequestStats(), unary: new RequestStats() },
    completions: { stream: new RequestStats(), unary: new RequestStats() },
  };
  /** Requests to be generated that have ended, by the status that their client got; 499 when it left. */
  readonly responses: StatusCounts = new StatusCounts();
  /** Requests that no worker took, by code. */
  readonly refused: Partial<Record<ErrorCode, number>> = {};
  /** Gaps between two writes of one stream, in seconds. */
  readonly gapSeconds = new Histogram(
    [0.001, 0.0019, 0.0035, 0.0067, 0.013, 0.024, 0.045, 0.084, 0.16, 0.3, 0.56, 1.1, 2],
  );
  readonly split: SplitStats = new SplitStats();
  /** Body chunks and bytes written to clients of streams. */
  chunksOut = 0;
  bytesOut = 0;
  /** Data records taken from workers. */
  recordsIn = 0;
  /** Times that a client's socket could take no more. */
  stalls = 0;
  retries = 0;
  keepAlives = 0;
  promptTokens = 0;
  completionTokens = 0;
  // Gauges.
  /** Requests whose response is not complete, from the first body byte on. */
  live = 0;
  /** Requests that wait for their first record. */
  queued = 0;

  countRefused(code: ErrorCode): void {
    this.refused[code] = (this.refused[code] ?? 0) + 1;
  }
}
