/** How a request ended: decided here, recorded once. Never inferred from the absence of an error. */
import { type ErrorCode, TokenplaneError } from "../errors.ts";
import type { Outcome } from "../outcome.ts";
import type { SummaryNote } from "../plane/notes.ts";
import type { StreamEnd } from "../stream.ts";
import type { FrontendStats, RequestStats } from "./stats.ts";

/** The outcome of a stream that ran to an end of its own. `ok` needs a clean end and the producer's word. */
export function outcomeOf(end: StreamEnd, summary: SummaryNote | null): Outcome {
  switch (end.kind) {
    case "finalized":
      return summary === null ? "truncated" : summary.outcome;
    case "dropped":
      return "dropped";
    case "transport_error":
      return "upstream_error";
    case "timeout":
      return "timeout";
    case "protocol":
      return "internal_error";
  }
}

/** Why a stream ended as it did, for the log. */
export function describeEnd(end: StreamEnd, summary: SummaryNote | null): string {
  switch (end.kind) {
    case "finalized":
      return summary === null ? "the stream ended without a summary" : summary.detail ?? summary.outcome;
    case "transport_error":
      return end.message;
    default:
      return end.reason;
  }
}

/** The error that a client gets for an outcome when nothing has been written yet. */
export function errorOfOutcome(outcome: Outcome, detail: string): TokenplaneError {
  switch (outcome) {
    case "timeout":
      return new TokenplaneError("timeout", `Cannot complete the request: ${detail}`);
    case "cancelled":
      return new TokenplaneError("cancelled", `Cannot complete the request: ${detail}`);
    case "internal_error":
      return new TokenplaneError("internal", `Cannot complete the request: ${detail}`);
    case "dropped":
      return new TokenplaneError("connection", `Cannot complete the request: ${detail}`);
    default:
      return new TokenplaneError("remote", `Cannot complete the request: ${detail}`);
  }
}

/** The outcome of a request that failed with `error` after a worker had been asked. */
export function outcomeOfError(error: TokenplaneError): Outcome {
  switch (error.code) {
    case "timeout":
      return "timeout";
    case "cancelled":
      return "cancelled";
    case "connection":
    case "peer_unknown":
    case "unavailable":
      return "dropped";
    case "internal":
    case "closed":
    case "invalid_config":
      return "internal_error";
    default:
      return "upstream_error";
  }
}

/** Errors that say no to a request instead of telling how it went. */
const REFUSALS: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  "invalid_request",
  "unauthorized",
  "model_not_found",
  "too_large",
  "overloaded",
  "unavailable",
]);

/** Whether a request that no worker has taken was refused with `error`, and has no outcome. */
export function isRefusal(error: TokenplaneError): boolean {
  return REFUSALS.has(error.code);
}

/** The one outcome of one request, or its refusal. */
export class OutcomeRecord {
  readonly #stats: FrontendStats;
  readonly #request: RequestStats;
  #isSettled = false;

  constructor(stats: FrontendStats, request: RequestStats) {
    this.#stats = stats;
    this.#request = request;
    stats.queued++;
  }

  /** False while the request runs. */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** The first worker is asked. */
  start(): void {
    this.#request.started++;
  }

  /** The first data record came, `seconds` after the request. */
  firstRecord(seconds: number): void {
    this.#stats.queued--;
    this.#stats.live++;
    this.#request.firstTokenSeconds.observe(seconds);
  }

  /** Records the outcome; true for the first call, which alone counts. */
  settle(outcome: Outcome, seconds: number, summary: SummaryNote | null, hadRecord: boolean): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    if (hadRecord) this.#stats.live--;
    else this.#stats.queued--;
    this.#request.outcomes[outcome]++;
    this.#request.durationSeconds.observe(seconds);
    const usage = summary?.usage;
    if (usage !== null && usage !== undefined) {
      this.#stats.promptTokens += usage.promptTokens;
      this.#stats.completionTokens += usage.completionTokens;
    }
    return true;
  }

  /** Nobody took the request: it has no outcome. True for the first call, which alone counts. */
  refuse(code: ErrorCode): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    this.#stats.queued--;
    this.#stats.countRefused(code);
    return true;
  }
}
