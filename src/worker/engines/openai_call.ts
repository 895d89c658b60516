/** One request to an OpenAI-compatible server: from the connection to exactly one end. */
import type { ClientRequest, IncomingMessage } from "node:http";
import type { TimerHandle } from "../../clock.ts";
import { BodyObserver } from "./body_observer.ts";
import type { EngineOutput, EngineSummary } from "./engine.ts";
import { type ApiError, sendApiError } from "./error_response.ts";
import type { OpenAiSettings } from "./openai_options.ts";
import { type BodyEnd, StreamObserver } from "./stream_observer.ts";

const UNREACHABLE: ApiError = {
  message: "The engine cannot be reached",
  type: "server_error",
  code: "engine_unavailable",
};
const NO_ANSWER: ApiError = {
  message: "The engine gave no valid answer",
  type: "server_error",
  code: "engine_error",
};
const TOO_SLOW: ApiError = {
  message: "The engine did not answer in time",
  type: "server_error",
  code: "engine_timeout",
};
/** Interim answers (1xx) in front of a response; one that sends them without end takes the event loop's time. */
const MAX_INTERIM = 16;
const CONTENT_TYPE = /^[\x20-\x7e]{1,256}$/;

/** States in order: each has its own deadline, and none comes twice. */
type Phase = "connecting" | "waiting" | "reading" | "ended";

/** Carries one response from the server to the output. */
export class OpenAiCall {
  readonly #output: EngineOutput;
  readonly #settings: OpenAiSettings;
  /** How long the server may be silent before the head and inside the body, in ms; 0: as long as it likes. */
  readonly #headMs: number;
  readonly #silenceMs: number;
  readonly #onEnded: (call: OpenAiCall) => void;
  readonly #onAbort = () => this.#abandon();
  #phase: Phase = "connecting";
  #request: ClientRequest | null = null;
  #response: IncomingMessage | null = null;
  #observer: StreamObserver | BodyObserver | null = null;
  #timer: TimerHandle | null = null;
  #lastByteAt = 0;
  #interim = 0;
  /** The response was read to its end: its connection may serve another request. */
  #isDrained = false;
  /** `[DONE]` was seen: the rest of the connection is on a short leash. */
  #isClosing = false;

  constructor(
    output: EngineOutput,
    settings: OpenAiSettings,
    isStream: boolean,
    onEnded: (call: OpenAiCall) => void,
  ) {
    this.#output = output;
    this.#settings = settings;
    this.#headMs = isStream ? settings.headersTimeoutMs : settings.wholeTimeoutMs;
    this.#silenceMs = isStream ? settings.idleTimeoutMs : settings.wholeTimeoutMs;
    this.#onEnded = onEnded;
  }

  /** Sends the request that `open` makes. */
  start(open: () => ClientRequest, body: Uint8Array): void {
    this.#output.signal.addEventListener("abort", this.#onAbort, { once: true });
    let request: ClientRequest;
    try {
      request = open();
    } catch (caught) {
      const error = { message: "The request cannot be sent to the engine", type: "server_error" };
      return this.#refuse(500, error, "internal_error", describe(caught));
    }
    this.#request = request;
    this.#setTimer(this.#settings.connectTimeoutMs, () => {
      this.#refuse(503, UNREACHABLE, "timeout", `No connection in ${this.#settings.connectTimeoutMs} ms`);
    });
    request.on("error", (error) => this.#handleRequestError(error));
    request.on("socket", (socket) => {
      if (socket.connecting) socket.once("connect", () => this.#handleConnected());
      else this.#handleConnected();
    });
    request.on("information", () => {
      if (++this.#interim > MAX_INTERIM) {
        this.#refuse(502, NO_ANSWER, "upstream_error", `More than ${MAX_INTERIM} interim answers`);
      }
    });
    request.on("upgrade", (_response, socket) => {
      socket.destroy();
      this.#refuse(502, NO_ANSWER, "upstream_error", "Status 101 cannot be passed on");
    });
    request.on("response", (response) => this.#handleResponse(response));
    request.setNoDelay(true);
    request.end(body);
  }

  /** Ends early, because the engine closes. */
  cut(why: string): void {
    if (this.#phase === "reading") {
      this.#end({ outcome: "truncated", usage: null, finishReasons: [], detail: why });
    } else this.#refuse(503, UNREACHABLE, "upstream_error", why);
  }

  #handleConnected(): void {
    if (this.#phase !== "connecting") return;
    this.#phase = "waiting";
    this.#setBound(this.#headMs, () => {
      this.#refuse(504, TOO_SLOW, "timeout", `No response head in ${this.#headMs} ms`);
    });
  }

  #handleRequestError(error: Error): void {
    if (this.#phase === "connecting") this.#refuse(503, UNREACHABLE, "upstream_error", describe(error));
    else if (this.#phase === "waiting") this.#refuse(502, NO_ANSWER, "upstream_error", describe(error));
    else this.#finish("broken");
  }

  #handleResponse(response: IncomingMessage): void {
    // Listened to in any case: an error event without a listener ends the process.
    response.on("error", () => this.#finish("broken"));
    if (this.#phase === "ended") return;
    const status = response.statusCode ?? 0;
    const encoding = response.headers["content-encoding"] ?? "identity";
    if (encoding !== "identity") {
      return this.#refuse(502, NO_ANSWER, "upstream_error", `The body is encoded with "${encoding}" unasked`);
    }
    if (status < 200 || (status >= 300 && status < 400) || status > 599) {
      return this.#refuse(502, NO_ANSWER, "upstream_error", `Status ${status} cannot be passed on`);
    }
    const named = response.headers["content-type"] ?? "";
    const contentType = CONTENT_TYPE.test(named) ? named : "application/octet-stream";
    const isStream = status < 300 && /^text\/event-stream\s*(;|$)/i.test(contentType);
    this.#phase = "reading";
    this.#response = response;
    this.#observer = isStream
      ? new StreamObserver(this.#settings.maxEventBytes, this.#settings.missingDone)
      : new BodyObserver(status, this.#settings.maxObservedBytes);
    this.#lastByteAt = this.#settings.clock.now();
    this.#watchSilence(this.#silenceMs);
    this.#output.onWritable = () => void response.resume();
    this.#output.head(status, contentType);
    response.on("data", (bytes: Uint8Array) => this.#handleData(bytes));
    response.on("end", () => {
      this.#isDrained = response.complete;
      this.#finish(response.complete ? "clean" : "broken");
    });
    response.on("close", () => this.#finish("broken"));
  }

  #handleData(bytes: Uint8Array): void {
    const observer = this.#observer;
    if (this.#phase !== "reading" || observer === null) return;
    this.#lastByteAt = this.#settings.clock.now();
    observer.feed(bytes);
    const writable = this.#output.data(bytes);
    // The output may have aborted us from within the call.
    if ((this.#phase as Phase) === "ended") return;
    if (!writable) this.#response?.pause();
    if (!(observer instanceof StreamObserver)) return;
    if (observer.overflowed) this.#finish("broken");
    else if (observer.isDone && !this.#isClosing) this.#expectEnd();
  }

  /** Behind `[DONE]` the response should end by itself; if not, the socket is not worth keeping. */
  #expectEnd(): void {
    this.#isClosing = true;
    this.#setTimer(this.#settings.doneGraceMs, () => this.#finish("clean"));
  }

  /** One timer per silence, not per chunk: it looks when it fires. */
  #watchSilence(ms: number): void {
    this.#setBound(ms, () => {
      const { clock } = this.#settings;
      // While we do not read, the silence is ours.
      if (this.#response?.isPaused()) this.#lastByteAt = clock.now();
      const left = this.#lastByteAt + this.#silenceMs - clock.now();
      if (left > 0) return this.#watchSilence(left);
      const detail = `The engine was silent for ${this.#silenceMs} ms`;
      const summary = this.#observer?.summarise("broken") ?? { usage: null, finishReasons: [] };
      this.#end({ ...summary, outcome: "timeout", detail });
    });
  }

  #finish(end: BodyEnd): void {
    if (this.#phase !== "reading" || this.#observer === null) return;
    this.#end(this.#observer.summarise(end));
  }

  #refuse(status: number, error: ApiError, outcome: EngineSummary["outcome"], detail: string): void {
    if (this.#phase === "ended") return;
    this.#release();
    sendApiError(this.#output, status, error, outcome, detail);
  }

  #end(summary: EngineSummary): void {
    this.#release();
    this.#output.end(summary);
  }

  /** Nobody wants the response any more. */
  #abandon(): void {
    if (this.#phase !== "ended") this.#release();
  }

  /** The one way out of every call: lets go of timer, listener and, unless it can be used again, the socket. */
  #release(): void {
    this.#phase = "ended";
    this.#clearTimer();
    this.#output.signal.removeEventListener("abort", this.#onAbort);
    if (!this.#isDrained) this.#request?.destroy();
    this.#onEnded(this);
  }

  /** As `#setTimer`, but 0 is no bound. */
  #setBound(ms: number, callback: () => void): void {
    if (ms > 0) this.#setTimer(ms, callback);
    else this.#clearTimer();
  }

  #setTimer(ms: number, callback: () => void): void {
    this.#clearTimer();
    this.#timer = this.#settings.clock.setTimer(callback, ms);
  }

  #clearTimer(): void {
    if (this.#timer !== null) this.#settings.clock.clearTimer(this.#timer);
    this.#timer = null;
  }
}

function describe(caught: unknown): string {
  if (!(caught instanceof Error)) return String(caught);
  const { code } = caught as { code?: unknown };
  return typeof code === "string" ? `${code}: ${caught.message}` : caught.message;
}
