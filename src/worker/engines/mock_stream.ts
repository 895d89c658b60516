/** One response of the mock on its way from prefill to the end. */
import type { TokenUsage } from "../../outcome.ts";
import type { EngineOutput, EngineRequest } from "./engine.ts";
import { sendApiError } from "./error_response.ts";
import { buildStreamEvents, buildWholeBody, type EventIdentity, type StreamEvents } from "./mock_events.ts";
import type { MockRequest } from "./mock_request.ts";
import { hashText, nextState, writeToken } from "./mock_vocabulary.ts";

/** What the engine gives to each of its streams. */
export interface MockStreamContext {
  readonly seed: number;
  readonly eventBytes: number;
  readonly created: number;
  /** When the prefill is over, in ms of the engine's clock. */
  readonly dueAt: number;
  /** Called once, when the stream ends or is aborted. */
  readonly onRetired: () => void;
}

const EVENT_STREAM = "text/event-stream";

/** Makes one token per {@linkcode MockStream.emit}; holds back while its output says so. */
export class MockStream {
  readonly dueAt: number;
  readonly #request: MockRequest;
  readonly #output: EngineOutput;
  readonly #usage: TokenUsage;
  readonly #identity: EventIdentity;
  /** Null when the response is not streamed. */
  readonly #events: StreamEvents | null;
  readonly #onRetired: () => void;
  readonly #onAbort = () => this.#retire();
  #state: number;
  #made = 0;
  #started = false;
  #blocked = false;
  #retired = false;

  constructor(request: MockRequest, source: EngineRequest, output: EngineOutput, context: MockStreamContext) {
    this.dueAt = context.dueAt;
    this.#request = request;
    this.#output = output;
    this.#onRetired = context.onRetired;
    this.#usage = {
      promptTokens: request.promptTokens,
      completionTokens: request.tokens,
      totalTokens: request.promptTokens + request.tokens,
    };
    this.#identity = {
      id: `${request.chat ? "chatcmpl-" : "cmpl-"}${shortId(source.id)}`,
      model: source.model,
      created: context.created,
    };
    // A xorshift generator must not start at zero.
    this.#state = hashText(String(context.seed), request.hash) || 1;
    this.#events = request.stream
      ? buildStreamEvents(request, this.#identity, this.#usage, context.eventBytes)
      : null;
    output.onWritable = () => {
      this.#blocked = false;
    };
    output.signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  /** Ended or aborted: nothing more comes. */
  get retired(): boolean {
    return this.#retired;
  }

  /** The output is full: nothing is made until it has room again. */
  get isBlocked(): boolean {
    return this.#blocked;
  }

  /** Reads what `emit` will, and returns a number made of it, so that no compiler leaves the reading out. */
  prefetch(): number {
    if (this.#events === null) return this.#made;
    const { token } = this.#events;
    return this.#made ^ token[0]! ^ token[token.length >> 1]! ^ token[token.length - 1]!;
  }

  /** Makes the token of one step. Returns whether bytes went out. */
  emit(): boolean {
    if (this.#blocked || this.#retired) return false;
    const events = this.#events;
    if (events === null) return this.#emitWhole();
    if (!this.#started) {
      this.#started = true;
      this.#output.head(200, EVENT_STREAM);
      // The role event is no token; only when the output is full already does the first token wait for the next step.
      if (events.role !== null && this.#isHeldBack(this.#output.data(events.role))) return true;
    }
    if (this.#made < this.#request.tokens) {
      this.#state = nextState(this.#state);
      writeToken(events.token, events.tokenAt, this.#state);
      this.#made++;
      if (this.#isHeldBack(this.#output.data(events.token))) return true;
      if (this.#made < this.#request.tokens) return true;
    }
    this.#finish(events.tail);
    return true;
  }

  /** Ends early, because the engine closes. */
  cut(why: string): void {
    if (this.#retired) return;
    this.#retire();
    if (this.#started) {
      this.#output.end({ outcome: "truncated", usage: null, finishReasons: [], detail: why });
    } else {
      sendApiError(
        this.#output,
        503,
        { message: why, type: "server_error", code: "unavailable" },
        "upstream_error",
      );
    }
  }

  /** Whether the stream has to pause: the output is full, or it aborted us from within the call. */
  #isHeldBack(writable: boolean): boolean {
    if (!writable) this.#blocked = true;
    return !writable || this.#retired;
  }

  #emitWhole(): boolean {
    if (++this.#made < this.#request.tokens) return false;
    this.#output.head(200, "application/json");
    this.#finish(buildWholeBody(this.#request, this.#identity, this.#usage, this.#state));
    return true;
  }

  #finish(bytes: Uint8Array): void {
    this.#output.data(bytes);
    if (this.#retired) return;
    this.#retire();
    this.#output.end({ outcome: "ok", usage: this.#usage, finishReasons: [this.#request.finishReason] });
  }

  /** The only place where a stream stops counting. */
  #retire(): void {
    if (this.#retired) return;
    this.#retired = true;
    this.#output.signal.removeEventListener("abort", this.#onAbort);
    this.#onRetired();
  }
}

/** 16 hex digits that differ from request to request, however long the client's own id is. */
function shortId(id: string): string {
  const high = hashText(id);
  const low = hashText(id, high ^ 0x5bd1e995);
  return high.toString(16).padStart(8, "0") + low.toString(16).padStart(8, "0");
}
