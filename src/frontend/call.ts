/**
 * One client request that workers are asked for: tries one after the other until data has come, then stands aside for the
 * relay, and records the one outcome.
 */
import type { ServerResponse } from "node:http";
import { TokenplaneError, toTokenplaneError } from "../errors.ts";
import type { Outcome } from "../outcome.ts";
import type { SummaryNote } from "../plane/notes.ts";
import { encodeRequestMessage, GENERATE_HANDLER } from "../plane/request_message.ts";
import type { Placement } from "../routing/placement.ts";
import type { RouteRequest } from "../routing/policies/policy.ts";
import type { NoWorker } from "../routing/router.ts";
import type { Worker } from "../routing/worker.ts";
import type { CallContext } from "./dispatch.ts";
import { WORKER_HEADER } from "./worker_header.ts";
import type { Endpoint } from "./endpoints.ts";
import { errorReply, invalidRequest } from "./error_body.ts";
import { errorOfOutcome, isRefusal, outcomeOfError, OutcomeRecord } from "./outcome_record.ts";
import { judgeRefusal } from "./refusal.ts";
import { Relay } from "./relay.ts";
import type { RelayHost } from "./relay_host.ts";
import { modelNotFound } from "./request.ts";
import { sendError } from "./respond.ts";
import { TtftSplit } from "./ttft_split.ts";

/** A request that has been read and understood. */
export interface GenerateRequest {
  readonly id: string;
  /** What the key that it came with is called; undefined when none is asked for. */
  readonly keyName: string | undefined;
  readonly endpoint: Endpoint;
  readonly path: string;
  /** What the choice of a worker depends on. */
  readonly route: RouteRequest;
  readonly stream: boolean;
  readonly headers: Readonly<Record<string, string>>;
  /** When its head had been read, by the clock in ms. */
  readonly arrivedMs: number;
}

/** See above. Its owner calls `onClosed` and `onTick`, and keeps it until `onClosed`. */
export class Call implements RelayHost {
  readonly #context: CallContext;
  readonly #request: GenerateRequest;
  readonly #response: ServerResponse;
  readonly #relay: Relay;
  readonly #record: OutcomeRecord;
  readonly #split: TtftSplit;
  readonly #startedMs: number;
  readonly #tried: Worker[] = [];
  #placement: Placement | null = null;
  /** For another try; let go with the first record, as a prompt may be large and its answer long. */
  #body: Uint8Array | null;
  #hadRecord = false;
  /** When the worker took the request, by the clock in ms; -1 until it has. */
  #acceptedMs = -1;
  #completedMs = -1;

  constructor(context: CallContext, request: GenerateRequest, body: Uint8Array, response: ServerResponse) {
    this.#context = context;
    this.#request = request;
    this.#body = body;
    this.#response = response;
    this.#split = new TtftSplit(request.arrivedMs);
    this.#startedMs = context.clock.now();
    this.#relay = new Relay(context.relay, this, response, request.id);
    const { stats } = context.relay;
    this.#record = new OutcomeRecord(
      stats,
      stats.requests[request.endpoint][request.stream ? "stream" : "unary"],
    );
  }

  /** Asks the first worker. */
  start(): void {
    this.#try(null);
  }

  /** The response is over or the client is gone: the last call. */
  onClosed(): void {
    if (this.#record.isSettled) return;
    this.#relay.abandon("client disconnected");
    this.#settle("cancelled", 499, null, "the client left");
  }

  /** Called a few times per second: every time-out of a request is kept here, so that none needs a timer. */
  onTick(now: number): void {
    const { options } = this.#context;
    const isLate = (since: number, limit: number) => limit > 0 && since >= 0 && now - since >= limit;
    if (this.#completedMs >= 0) {
      // All was said; a client that does not take it must not hold the connection for ever.
      if (isLate(this.#completedMs, options.stallTimeoutMs)) this.#response.destroy();
    } else if (!this.#request.stream && this.#acceptedMs >= 0 && !this.#relay.isStreaming) {
      // Its first byte comes when all of it has been made: that it is late says nothing.
      if (isLate(this.#acceptedMs, options.wholeTimeoutMs)) {
        this.#fail(new TokenplaneError("timeout", "Cannot complete the request: its answer took too long"));
      }
    } else if (!this.#hadRecord) {
      if (isLate(this.#startedMs, options.firstRecordTimeoutMs)) {
        this.#fail(new TokenplaneError("timeout", "Cannot complete the request: no record came in time"));
      }
    } else if (isLate(this.#relay.blockedSinceMs, options.stallTimeoutMs)) {
      this.#relay.abandon("client stalled");
      this.#settle("cancelled", 499, null, "the client took nothing for too long");
      this.#response.destroy();
    } else if (this.#relay.isStreaming && this.#relay.blockedSinceMs < 0) {
      if (isLate(this.#relay.lastWriteMs, options.idleTimeoutMs)) this.#relay.breakOff("timeout");
      else if (isLate(this.#relay.lastSignMs, options.sseKeepAliveMs)) this.#relay.keepAlive(now);
    }
  }

  /** The frontend stops: ends the request now, with whatever says so at this point. */
  shutDown(): void {
    if (this.#record.isSettled) return;
    if (this.#relay.isStreaming) return this.#relay.breakOff("shutting_down");
    this.#fail(new TokenplaneError("unavailable", "Cannot complete the request: the frontend shuts down"));
  }

  onFirstRecord(): void {
    this.#hadRecord = true;
    this.#body = null;
    const now = this.#context.clock.now();
    if (this.#acceptedMs < 0) this.#acceptedMs = now;
    this.#placement?.prefilled();
    this.#split.firstRecord(now);
    this.#record.firstRecord((now - this.#startedMs) / 1000);
  }

  onComplete(outcome: Outcome, summary: SummaryNote | null): void {
    this.#settle(outcome, this.#response.statusCode, summary, summary?.detail);
  }

  onFailedEarly(outcome: Outcome, detail: string): void {
    const error = errorOfOutcome(outcome, detail);
    // Whether its worker is lost too, the lanes say; one dropped stream does not.
    if (outcome === "dropped" && !this.#hadRecord) this.#try(error);
    else this.#fail(error, outcome);
  }

  /** Asks a worker that has not been asked; `last` is why the one before it failed. */
  #try(last: TokenplaneError | null): void {
    const context = this.#context;
    const request = this.#request;
    this.#releaseWorker();
    if (last !== null) {
      this.#relay.detach("another try");
      if (this.#tried.length >= context.options.maxAttempts) return this.#fail(last);
    }
    const placement = context.routing.router.place(request.route, this.#tried);
    if (typeof placement === "string") return this.#fail(last ?? noWorkerError(placement, request.route));
    const { worker } = placement;
    if (last === null) this.#record.start();
    else context.relay.stats.retries++;
    this.#tried.push(worker);
    this.#placement = placement;
    this.#acceptedMs = -1;
    try {
      const anchor = context.plane.register(this.#relay, worker.instanceId);
      this.#relay.attach(anchor, placement.target.name);
      const { id, path, route: { model }, stream, headers } = request;
      const body = this.#body!;
      const chosen = worker.virtual.length > 1 ? { virtualWorker: placement.target.index } : {};
      const { ticket } = anchor;
      const payload = encodeRequestMessage({ id, path, model, stream, ...chosen, ticket, headers, body });
      this.#split.dispatched(context.clock.now());
      context.messenger
        .requestAck(worker.instanceId, GENERATE_HANDLER, payload, context.options.ackTimeoutMs)
        .then(
          () => this.#onAccepted(worker),
          (error: unknown) => this.#onRefused(worker, toTokenplaneError(error)),
        );
    } catch (error) {
      this.#fail(toTokenplaneError(error));
    }
  }

  #onAccepted(worker: Worker): void {
    const now = this.#context.clock.now();
    this.#split.accepted(now);
    if (this.#worker === worker && this.#acceptedMs < 0) this.#acceptedMs = now;
  }

  #onRefused(worker: Worker, error: TokenplaneError): void {
    const refusal = judgeRefusal(error);
    if (refusal.worker === "lost") this.#context.onWorkerLost(worker, error.message);
    else if (refusal.worker === "draining") this.#context.onWorkerDraining(worker);
    // What came of the request since then counts for more than what became of its acknowledgement.
    if (this.#worker !== worker || this.#hadRecord || this.#record.isSettled) return;
    if (refusal.mayRetry) this.#try(refusal.error);
    else this.#fail(refusal.error);
  }

  /** Nothing has been sent: the client gets a real status. */
  #fail(error: TokenplaneError, outcome: Outcome = outcomeOfError(error)): void {
    this.#relay.abandon(error.code);
    const { status } = errorReply(error, this.#context.options.overloadStatus);
    const isSettled = this.#acceptedMs < 0 && isRefusal(error)
      ? this.#refuse(error, status)
      : this.#settle(outcome, status, null, error.message);
    if (isSettled) sendError(this.#response, error, this.#request.id, this.#context.options);
  }

  /** No worker took the request. */
  #refuse(error: TokenplaneError, status: number): boolean {
    if (!this.#record.refuse(error.code)) return false;
    this.#finish("request_refused", "refused", status, error.message);
    return true;
  }

  #settle(
    outcome: Outcome,
    status: number,
    summary: SummaryNote | null,
    detail: string | undefined,
  ): boolean {
    const now = this.#context.clock.now();
    const seconds = (now - this.#startedMs) / 1000;
    if (!this.#record.settle(outcome, seconds, summary, this.#hadRecord)) return false;
    const { log, options, relay } = this.#context;
    this.#split.finish(now, relay.stats.split, this.#request.id, options.logTtftSplit === "on" ? log : null);
    this.#finish("request_ended", outcome, status, detail);
    return true;
  }

  #finish(event: string, outcome: Outcome | "refused", status: number, detail: string | undefined): void {
    this.#completedMs = this.#context.clock.now();
    this.#context.relay.stats.responses.count(status);
    this.#context.log[levelOf(outcome, status)](event, {
      id: this.#request.id,
      key_name: this.#request.keyName,
      outcome,
      status,
      worker: this.#worker?.instanceId,
      detail,
    });
    this.#releaseWorker();
  }

  #releaseWorker(): void {
    this.#placement?.release();
    this.#placement = null;
  }

  get #worker(): Worker | null {
    return this.#placement?.worker ?? null;
  }
}

/** What a client asked for wrongly is its own affair; the status of a stream that broke off says nothing of it. */
function levelOf(outcome: Outcome | "refused", status: number): "debug" | "info" | "warn" {
  if (outcome === "cancelled") return "debug";
  if (status >= 400) return status < 500 ? "info" : "warn";
  return outcome === "ok" ? "debug" : "warn";
}

function noWorkerError(why: NoWorker, { model, wanted }: RouteRequest): TokenplaneError {
  switch (why) {
    case "all_busy":
      return new TokenplaneError("overloaded", "Cannot place the request: all workers are busy");
    case "unknown_model":
      return modelNotFound(model);
    case "not_wanted":
      return wanted === null
        ? invalidRequest(`The request names no worker: "${WORKER_HEADER}" must hold the name of one.`)
        : new TokenplaneError("unavailable", "Cannot place the request: the worker it names is not there");
    default:
      return new TokenplaneError("unavailable", "Cannot place the request: no worker can be reached");
  }
}
