/** Takes requests from their first body byte to their end: admission, body, call, time-outs, drain. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock, TimerHandle } from "../clock.ts";
import { TokenplaneError, toTokenplaneError } from "../errors.ts";
import type { MessengerPort } from "../messenger/types.ts";
import type { Logger } from "../observe/log.ts";
import type { ResponsePlane } from "../plane/types.ts";
import type { Worker } from "../routing/worker.ts";
import { BodyBudget, readBody } from "./body.ts";
import { Call, type GenerateRequest } from "./call.ts";
import { type Endpoint, ENDPOINT_PATHS } from "./endpoints.ts";
import type { FrontendOptions } from "./options.ts";
import type { RelayContext } from "./relay_host.ts";
import { parseRequest } from "./request.ts";
import { sendError } from "./respond.ts";
import type { Routing } from "./routing.ts";
import { WORKER_HEADER } from "./worker_header.ts";
import type { FrontendStats } from "./stats.ts";

/** What every call of a frontend shares. */
export interface CallContext {
  readonly clock: Clock;
  readonly log: Logger;
  readonly messenger: MessengerPort;
  readonly plane: ResponsePlane;
  readonly routing: Routing;
  readonly options: FrontendOptions;
  readonly relay: RelayContext;
  readonly onWorkerLost: (worker: Worker, reason: string) => void;
  readonly onWorkerDraining: (worker: Worker) => void;
}

const MAX_PASSED_HEADER_CHARS = 8_192;
/** For the last bytes of ended responses to be taken. */
const CLOSE_GRACE_MS = 250;

/** See above. One per frontend. */
export class Dispatcher {
  readonly #context: CallContext;
  readonly #stats: FrontendStats;
  readonly #budget: BodyBudget;
  readonly #calls = new Set<Call>();
  /** Requests of which the body is still coming. */
  #reading = 0;
  #isDraining = false;
  #isClosed = false;
  #timer: TimerHandle | null = null;
  #onIdle: (() => void) | null = null;

  constructor(context: CallContext) {
    this.#context = context;
    this.#stats = context.relay.stats;
    this.#budget = new BodyBudget(context.options.maxBodyBytesInFlight);
  }

  /** Requests whose response has not left completely. */
  get open(): number {
    return this.#calls.size + this.#reading;
  }

  get isDraining(): boolean {
    return this.#isDraining;
  }

  /** Takes a request over; answers it in any case. */
  accept(
    endpoint: Endpoint,
    request: IncomingMessage,
    response: ServerResponse,
    id: string,
    keyName: string | undefined,
  ): void {
    response.on("error", ignore);
    if (this.#isDraining) {
      const error = new TokenplaneError("unavailable", "The frontend is draining");
      return this.#refuse(response, id, keyName, error);
    }
    if (this.open >= this.#context.options.maxStreams) {
      const error = new TokenplaneError("overloaded", "The frontend is at its limit");
      return this.#refuse(response, id, keyName, error);
    }
    const { maxBodyBytes } = this.#context.options;
    const arrivedMs = this.#context.clock.now();
    this.#reading++;
    readBody(request, maxBodyBytes, this.#budget, (error, body) => {
      this.#reading--;
      if (error !== null) this.#refuse(response, id, keyName, error);
      else this.#dispatch(endpoint, request, response, { id, keyName, arrivedMs }, body);
      this.#checkIdle();
    });
  }

  /** From now on every new request is refused. */
  beginDrain(): void {
    this.#isDraining = true;
  }

  /** Waits until nothing is open, for at most `timeoutMs`, then ends what is. Resolves when all is closed. */
  async drain(timeoutMs: number): Promise<void> {
    this.#isDraining = true;
    if (await this.#idle(timeoutMs)) return;
    for (const call of [...this.#calls]) call.shutDown();
  }

  /** Ends everything at once; resolves when clients have taken the last bytes, or do not read. */
  async close(): Promise<void> {
    this.#isDraining = true;
    this.#isClosed = true;
    for (const call of [...this.#calls]) call.shutDown();
    if (this.#timer !== null) this.#context.clock.clearTimer(this.#timer);
    this.#timer = null;
    await this.#idle(CLOSE_GRACE_MS);
  }

  #dispatch(
    endpoint: Endpoint,
    request: IncomingMessage,
    response: ServerResponse,
    read: Pick<GenerateRequest, "id" | "keyName" | "arrivedMs">,
    body: Uint8Array,
  ): void {
    const { id, keyName } = read;
    if (response.destroyed) {
      return this.#refuse(response, id, keyName, new TokenplaneError("cancelled", "Client left"));
    }
    const { options } = this.#context;
    let call: Call;
    try {
      const { fields, model, stream } = parseRequest(endpoint, body, options.maxJsonDepth);
      const wanted = request.headers[WORKER_HEADER];
      const route = {
        model,
        blocks: this.#context.routing.blocksOf(fields, endpoint === "chat_completions"),
        wanted: typeof wanted === "string" ? wanted : null,
      };
      const headers = passedHeaders(request, options.passHeaders);
      call = new Call(
        this.#context,
        { ...read, endpoint, path: ENDPOINT_PATHS[endpoint], route, stream, headers },
        body,
        response,
      );
    } catch (error) {
      return this.#refuse(response, id, keyName, toTokenplaneError(error));
    }
    this.#calls.add(call);
    this.#watch(call, request, response);
    this.#arm();
    call.start();
  }

  /** A response that waits behind another on its connection has no socket yet, and says nothing when that closes. */
  #watch(call: Call, request: IncomingMessage, response: ServerResponse): void {
    const queuedOn = response.socket === null ? request.socket : null;
    const onClosed = () => {
      response.off("close", onClosed);
      queuedOn?.off("close", onClosed);
      call.onClosed();
      this.#calls.delete(call);
      this.#checkIdle();
    };
    response.on("close", onClosed);
    queuedOn?.on("close", onClosed);
  }

  #refuse(response: ServerResponse, id: string, keyName: string | undefined, error: TokenplaneError): void {
    this.#stats.countRefused(error.code);
    this.#context.log.debug("request_refused", { id, key_name: keyName, error });
    this.#stats.responses.count(sendError(response, error, id, this.#context.options));
  }

  /** One timer for the time-outs of all calls, while there are any. */
  #arm(): void {
    if (this.#timer !== null || this.#calls.size === 0 || this.#isClosed) return;
    const { clock } = this.#context;
    this.#timer = clock.setTimer(() => {
      this.#timer = null;
      const now = clock.now();
      for (const call of this.#calls) call.onTick(now);
      this.#arm();
    }, this.#tickMs());
  }

  /** A quarter of the shortest time-out, within reason. */
  #tickMs(): number {
    const { options } = this.#context;
    const { firstRecordTimeoutMs, wholeTimeoutMs, idleTimeoutMs, stallTimeoutMs, sseKeepAliveMs } = options;
    let shortest = 4_000;
    for (const ms of [firstRecordTimeoutMs, wholeTimeoutMs, idleTimeoutMs, stallTimeoutMs, sseKeepAliveMs]) {
      if (ms > 0 && ms < shortest) shortest = ms;
    }
    return Math.max(25, shortest / 4);
  }

  #idle(timeoutMs: number): Promise<boolean> {
    if (this.open === 0) return Promise.resolve(true);
    const { clock } = this.#context;
    return new Promise((resolve) => {
      const timer = clock.setTimer(() => settle(false), timeoutMs);
      const settle = (isIdle: boolean) => {
        this.#onIdle = null;
        clock.clearTimer(timer);
        resolve(isIdle);
      };
      this.#onIdle = () => settle(true);
    });
  }

  #checkIdle(): void {
    if (this.open === 0) this.#onIdle?.();
  }
}

function passedHeaders(request: IncomingMessage, names: readonly string[]): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const name of names) {
    const value = request.headers[name];
    if (typeof value === "string" && value.length <= MAX_PASSED_HEADER_CHARS) headers[name] = value;
  }
  return headers;
}

function ignore(): void {}
