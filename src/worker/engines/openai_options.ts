/** Settings of the `openai` engine. */
import type { Clock } from "../../clock.ts";
import type { MissingDone } from "./stream_observer.ts";

/** What {@linkcode OpenAiEngine} is made with. */
export interface OpenAiOptions {
  readonly clock: Clock;
  /** Base of the server's API, with its version: `http://HOST:PORT/v1`. */
  readonly url: string;
  /** Sent as bearer token in place of the client's. */
  readonly apiKey?: string;
  /** Most connections at once; requests over it wait for one. Default 1,024. */
  readonly maxConnections?: number;
  /** Time to get a connection, in ms. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** Time from the connection to the head of a stream, in ms: a long prefill falls in here. Default 600,000. */
  readonly headersTimeoutMs?: number;
  /** Longest silence inside a stream that we are reading, in ms. Default 120,000. */
  readonly idleTimeoutMs?: number;
  /** In place of the two above when no stream was asked for: the whole generation is silent. Default 1,800,000; 0: none. */
  readonly wholeTimeoutMs?: number;
  /** How long a connection may go on behind `[DONE]` before it is closed, in ms. Default 50. */
  readonly doneGraceMs?: number;
  /** Longest line or event of a stream, in bytes; over it that stream is cut. Default 4 MiB. */
  readonly maxEventBytes?: number;
  /** Longest body that is read for its usage, in bytes; a longer one passes unread. Default 4 MiB. */
  readonly maxObservedBytes?: number;
  /** Outcome of a stream with a finish reason but without `[DONE]`. Default `truncated`. */
  readonly missingDone?: MissingDone;
}

/** All settings, filled in. */
export interface OpenAiSettings extends Required<Omit<OpenAiOptions, "clock" | "url" | "apiKey">> {
  readonly clock: Clock;
  readonly apiKey: string | null;
}

/** Fills the defaults in. */
export function withDefaults(options: OpenAiOptions): OpenAiSettings {
  return {
    clock: options.clock,
    apiKey: options.apiKey ?? null,
    maxConnections: options.maxConnections ?? 1_024,
    connectTimeoutMs: options.connectTimeoutMs ?? 5_000,
    headersTimeoutMs: options.headersTimeoutMs ?? 600_000,
    idleTimeoutMs: options.idleTimeoutMs ?? 120_000,
    wholeTimeoutMs: options.wholeTimeoutMs ?? 1_800_000,
    doneGraceMs: options.doneGraceMs ?? 50,
    maxEventBytes: options.maxEventBytes ?? 4 * 1024 * 1024,
    maxObservedBytes: options.maxObservedBytes ?? 4 * 1024 * 1024,
    missingDone: options.missingDone ?? "truncated",
  };
}
