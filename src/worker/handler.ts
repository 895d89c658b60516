/**
 * Takes requests from frontends (`_tp_generate`) and runs them.
 *
 * The answer is an ack once the request runs, or a refusal whose text starts with its code: `overloaded: …`,
 * `unavailable: …`, `invalid_request: …`, `too_large: …`, `internal: …`.
 */
import { type Clock, systemClock } from "../clock.ts";
import { TokenplaneError, toTokenplaneError } from "../errors.ts";
import type { MessageOrigin, MessengerPort } from "../messenger/types.ts";
import { LimitedWarning } from "../observe/limited_warning.ts";
import { type Logger, silentLogger } from "../observe/log.ts";
import { newOutcomeCounts, type Outcome } from "../outcome.ts";
import {
  decodeRequestMessage,
  DEFAULT_REQUEST_LIMITS,
  GENERATE_HANDLER,
  type RequestLimits,
} from "../plane/request_message.ts";
import type { ResponsePlane } from "../plane/types.ts";
import type { Engine } from "./engines/engine.ts";
import type { PeerPreparation } from "./peer_preparation.ts";
import { type SentCounts, type StreamResult, WorkerStream } from "./worker_stream.ts";

/** What {@linkcode RequestHandler} is made with. */
export interface RequestHandlerOptions {
  readonly messenger: MessengerPort;
  readonly plane: ResponsePlane;
  readonly engine: Engine;
  readonly preparation: PeerPreparation;
  /** Requests at one time; over it they are refused as `overloaded`. */
  readonly maxRunning: number;
  readonly limits?: RequestLimits;
  readonly log?: Logger;
  /** Default: the process's own. */
  readonly clock?: Clock;
}

/** Counts since the start; plain numbers, read at scrape. */
export interface RequestStats {
  accepted: number;
  readonly refused: Record<string, number>;
  /** Every accepted request is in exactly one of these, once it is over. */
  readonly outcomes: Record<Outcome, number>;
  promptTokens: number;
  completionTokens: number;
  readonly sent: SentCounts;
}

/** Under this many streams whose last records wait, nobody looks which of them have gone. */
const MIN_SETTLING = 64;

/** Accepts, refuses, runs and counts. */
export class RequestHandler {
  readonly stats: RequestStats = {
    accepted: 0,
    refused: {},
    outcomes: newOutcomeCounts(),
    promptTokens: 0,
    completionTokens: 0,
    sent: { records: 0, bytes: 0 },
  };
  readonly #options: RequestHandlerOptions;
  readonly #limits: RequestLimits;
  readonly #log: Logger;
  readonly #failures: LimitedWarning;
  readonly #running = new Set<WorkerStream>();
  /** Over for the engine, with records that still wait for credit. */
  #settling: WorkerStream[] = [];
  #settlingLimit = MIN_SETTLING;
  #isAccepting = true;

  constructor(options: RequestHandlerOptions) {
    this.#options = options;
    this.#limits = options.limits ?? DEFAULT_REQUEST_LIMITS;
    this.#log = options.log ?? silentLogger;
    const { clock = systemClock } = options;
    this.#failures = new LimitedWarning(this.#log, () => clock.now());
    options.messenger.handleBytes(GENERATE_HANDLER, (payload, origin) => this.#handle(payload, origin));
  }

  /** Requests that an engine works on. */
  get inFlight(): number {
    return this.#running.size;
  }

  /** Nothing runs, and nothing waits to be sent. */
  get isIdle(): boolean {
    if (this.#running.size > 0) return false;
    this.#dropSettled();
    return this.#settling.length === 0;
  }

  /** Refuses every request from now on. */
  stopAccepting(): void {
    this.#isAccepting = false;
  }

  /** Ends what runs; consumers get an error. */
  endAll(why: string): void {
    for (const stream of [...this.#running]) stream.fail("truncated", why);
  }

  #handle(payload: Uint8Array, origin: MessageOrigin): void {
    try {
      this.#accept(payload, origin);
    } catch (caught) {
      const error = toTokenplaneError(caught);
      const { refused } = this.stats;
      const code = error.code === "protocol" ? "invalid_request" : error.code;
      refused[code] = (refused[code] ?? 0) + 1;
      this.#log.debug("request_refused", { code, error });
      // What went wrong inside is for the log alone.
      const text = code === "internal" ? "The worker failed" : error.message;
      throw new TokenplaneError(error.code, error.message, { wire: `${code}: ${text}`, cause: error });
    }
  }

  #accept(payload: Uint8Array, origin: MessageOrigin): void {
    const { engine, maxRunning, plane, preparation } = this.#options;
    if (!this.#isAccepting) throw new TokenplaneError("unavailable", "The worker is shutting down");
    if (this.#running.size >= maxRunning) {
      throw new TokenplaneError("overloaded", `The worker runs ${maxRunning} requests, its limit`);
    }
    const request = decodeRequestMessage(payload, this.#limits);
    preparation.prepare(request.ticket.peer, origin);
    const sender = plane.open(request.ticket);
    if (sender.ended !== null) {
      throw new TokenplaneError("internal", `Cannot open a stream: it is ${sender.ended}`);
    }
    const stream = new WorkerStream(request.id, sender, this.stats.sent, this.#onResult);
    this.#running.add(stream);
    this.stats.accepted++;
    try {
      engine.run(request, stream);
    } catch (caught) {
      this.#log.error("engine_failed", { request_id: request.id, error: caught });
      stream.fail("internal_error", "The worker failed");
    }
  }

  /** The only place where a request stops counting as running. */
  readonly #onResult = (stream: WorkerStream, result: StreamResult): void => {
    this.#running.delete(stream);
    const { stats } = this;
    stats.outcomes[result.outcome]++;
    stats.promptTokens += result.usage?.promptTokens ?? 0;
    stats.completionTokens += result.usage?.completionTokens ?? 0;
    if (result.outcome !== "ok") this.#logFailure(stream.requestId, result);
    if (stream.isSettled) return;
    this.#settling.push(stream);
    if (this.#settling.length >= this.#settlingLimit) this.#dropSettled();
  };

  #logFailure(requestId: string, { outcome, detail }: StreamResult): void {
    const fields = { request_id: requestId, outcome, detail, engine_url: this.#options.engine.url };
    // Clients that leave are everyday life.
    if (outcome === "cancelled") this.#log.debug("request_cancelled", fields);
    else this.#failures.warn("request_failed", fields);
  }

  #dropSettled(): void {
    this.#settling = this.#settling.filter((stream) => !stream.isSettled);
    this.#settlingLimit = Math.max(MIN_SETTLING, 2 * this.#settling.length);
  }
}
