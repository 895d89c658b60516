/** What makes tokens: the mock, or a real OpenAI-compatible server. An engine knows nothing of planes. */
import type { ProducerOutcome, TokenUsage } from "../../outcome.ts";

/** One request, as the frontend accepted it. `body` is the client's, byte for byte. */
export interface EngineRequest {
  readonly id: string;
  /** `/v1/chat/completions` or `/v1/completions`. */
  readonly path: string;
  readonly model: string;
  readonly stream: boolean;
  /** Which of the worker's logical workers the frontend chose; absent when it left that open. */
  readonly virtualWorker?: number;
  readonly body: Uint8Array;
  /** Client headers that the frontend passes on (lower case; authorization among them when configured). */
  readonly headers: Readonly<Record<string, string>>;
}

/** What the engine saw go by; sent behind the last byte, shown in metrics and logs, never written into the stream. */
export interface EngineSummary {
  readonly outcome: ProducerOutcome;
  readonly usage: TokenUsage | null;
  readonly finishReasons: readonly string[];
  /** Why, for the log, when the outcome is not `ok`. */
  readonly detail?: string;
}

/** Where an engine writes one response. Synchronous; an engine that was told `false` waits for `onWritable`. */
export interface EngineOutput {
  /** Must be called once, first. A status other than 200 becomes the client's status. */
  head(status: number, contentType: string): void;
  /** Body bytes, any framing. Copied before the call returns. False: hold back until `onWritable`. */
  data(bytes: Uint8Array): boolean;
  /** Must be called once, last, also after an error. Nothing may follow. */
  end(summary: EngineSummary): void;
  onWritable: (() => void) | null;
  /** Aborted when nobody wants this response any more. The engine then stops and need not call `end`. */
  readonly signal: AbortSignal;
}

/** Connections of an engine to a server behind it. */
export interface EngineConnections {
  readonly busy: number;
  readonly idle: number;
  /** Requests that wait for one. */
  readonly waiting: number;
}

/** A source of tokens. */
export interface Engine {
  readonly name: string;
  /** Base of the server behind it, for the log; absent when there is none. */
  readonly url?: string;
  /** Starts one request and returns at once; everything further goes to `output`. Must not throw. */
  run(request: EngineRequest, output: EngineOutput): void;
  /** Requests running now. */
  readonly running: number;
  /** Logical workers in it; absent: it is one. */
  readonly virtualWorkers?: number;
  /** Absent when there is no server behind it. */
  readonly connections?: EngineConnections;
  /** Stops everything and releases connections. */
  close(): Promise<void>;
}
