/** Settings of a frontend. The configuration schema maps flags onto these; nothing else holds a limit. */
import { TokenplaneError } from "../errors.ts";
import type { RouterMode } from "../routing/policies/mod.ts";
import { DEFAULT_REQUEST_LIMITS } from "../plane/request_message.ts";
import { MAX_CONCURRENT, MAX_RPM } from "./keys/key_entry.ts";

/** How response bytes reach the client's socket; `auto` takes the cheapest that works here. */
export type EgressChoice = "auto" | "ring" | "ffi" | "socket" | "portable";

/** Every setting of {@linkcode import("./node.ts").FrontendNode}. Times are in ms; 0 turns a time-out off. */
export interface FrontendOptions {
  /** Keys that `/v1/…` takes as bearer tokens; empty: everyone is let in. */
  readonly apiKeys: readonly string[];
  /** Requests per minute of each key that has no limit of its own; 0: any number. Beyond it 429. */
  readonly keyRequestsPerMinute: number;
  /** The same of requests at one time. */
  readonly keyConcurrentRequests: number;
  /** Client headers that travel to the worker, in lower case. */
  readonly passHeaders: readonly string[];

  /** Bytes of one request body; over it 413. */
  readonly maxBodyBytes: number;
  /** Bytes of all bodies being read at one time; over it the overload status. */
  readonly maxBodyBytesInFlight: number;
  /** Nesting of a request body; over it 400. */
  readonly maxJsonDepth: number;
  /** Bytes of a request's head; over it 431. */
  readonly maxHeaderBytes: number;
  /** Open client connections; more are closed at once. */
  readonly maxConnections: number;
  /** Requests to workers at one time; over it the overload status. */
  readonly maxStreams: number;
  /** Status for `maxStreams` and for workers at their capacity. */
  readonly overloadStatus: 429 | 503 | 529;
  /** `retry-after` of 429 and 503 answers, in seconds. */
  readonly retryAfterSeconds: number;
  /** Bytes of a response that is not streamed, gathered before the status is sent; beyond it is relayed as it comes. */
  readonly maxGatherBytes: number;

  /** From a connection to the end of its TLS handshake. */
  readonly tlsHandshakeTimeoutMs: number;
  /** Connections whose TLS handshake is under way; more close the oldest of them. */
  readonly maxTlsHandshakes: number;
  /** From the first byte of a request's head to its last. */
  readonly headersTimeoutMs: number;
  /** From the first byte of a request to the last of its body; then 408. */
  readonly requestTimeoutMs: number;
  /** Idle time of a kept-alive connection between two requests. */
  readonly keepAliveTimeoutMs: number;
  /** A worker's acceptance of a request. */
  readonly ackTimeoutMs: number;
  /**
   * From the request to the first record, all tries together; then 504. Of an answer that is not streamed: to a worker's
   * acceptance.
   */
  readonly firstRecordTimeoutMs: number;
  /** From a worker's acceptance of a request that is not streamed to the whole of its answer; then 504. */
  readonly wholeTimeoutMs: number;
  /** Between two records of a client that reads; then an error event. */
  readonly idleTimeoutMs: number;
  /** A client that takes no byte though some wait for it; then its connection is closed. */
  readonly stallTimeoutMs: number;
  /** Comment lines while a stream is silent, at event boundaries only. */
  readonly sseKeepAliveMs: number;

  /** Workers tried for one request, as long as nothing has been received. */
  readonly maxAttempts: number;
  /** Workers at one time. */
  readonly maxWorkers: number;
  /** How often a worker has to say that it is there; after three silent intervals it leaves. */
  readonly joinIntervalMs: number;
  /** How long a worker whose connection was lost is kept, out of use, for it to come back. */
  readonly lostGraceMs: number;

  readonly routerMode: RouterMode;
  /** Tokens of one KV block, as its workers have it. */
  readonly kvBlockSize: number;
  /** Weights of `kv`, see `routing/policies/kv_aware.ts`. */
  readonly routerKvOverlapCredit: number;
  readonly routerPrefillLoadScale: number;
  readonly routerTemperature: number;
  /** How long a worker that reports nothing keeps what it was sent, s. */
  readonly routerTtlSecs: number;
  /** Different blocks that a shard remembers. */
  readonly routerMaxBlocks: number;

  readonly egress: EgressChoice;
  /** Logs where the time of each finished request went. */
  readonly logTtftSplit: "off" | "on";
  /** Connections that the kernel completes ahead of `accept`. */
  readonly backlog: number;
}

/** What applies to a setting that is not given. */
export const DEFAULT_FRONTEND_OPTIONS: FrontendOptions = Object.freeze({
  apiKeys: [],
  keyRequestsPerMinute: 0,
  keyConcurrentRequests: 0,
  passHeaders: ["traceparent", "tracestate", "x-correlation-id"],
  maxBodyBytes: 8 * 1024 * 1024,
  maxBodyBytesInFlight: 512 * 1024 * 1024,
  maxJsonDepth: 64,
  maxHeaderBytes: 16 * 1024,
  maxConnections: 65_536,
  maxStreams: 16_384,
  overloadStatus: 429,
  retryAfterSeconds: 1,
  maxGatherBytes: 4 * 1024 * 1024,
  tlsHandshakeTimeoutMs: 10_000,
  maxTlsHandshakes: 1_024,
  headersTimeoutMs: 30_000,
  requestTimeoutMs: 60_000,
  keepAliveTimeoutMs: 75_000,
  ackTimeoutMs: 10_000,
  firstRecordTimeoutMs: 300_000,
  wholeTimeoutMs: 1_800_000,
  idleTimeoutMs: 0,
  stallTimeoutMs: 300_000,
  sseKeepAliveMs: 0,
  maxAttempts: 3,
  maxWorkers: 4_096,
  joinIntervalMs: 2_000,
  lostGraceMs: 500,
  routerMode: "least-loaded",
  kvBlockSize: 64,
  routerKvOverlapCredit: 1,
  routerPrefillLoadScale: 1,
  routerTemperature: 0,
  routerTtlSecs: 120,
  routerMaxBlocks: 4_194_304,
  egress: "auto",
  logTtftSplit: "off",
  backlog: 4_096,
});

/** The largest body that fits a frame with the rest of the request message. */
export const MAX_BODY_BYTES: number = DEFAULT_REQUEST_LIMITS.maxBodyBytes;

/** Fills in defaults and checks ranges. Throws `invalid_config`. */
export function checkFrontendOptions(given: Partial<FrontendOptions>): FrontendOptions {
  const options = { ...DEFAULT_FRONTEND_OPTIONS, ...given };
  const refuse = (name: string, value: unknown, allowed: string) => {
    return new TokenplaneError("invalid_config", `Cannot use ${name} ${value}: it must be ${allowed}`);
  };
  for (const [name, value] of Object.entries(options)) {
    if (typeof value === "number" && !(Number.isSafeInteger(value) && value >= 0)) {
      throw refuse(name, value, "a whole number from 0");
    }
  }
  const positive = [
    "maxBodyBytes",
    "maxJsonDepth",
    "maxHeaderBytes",
    "maxConnections",
    "maxStreams",
    "maxGatherBytes",
    "tlsHandshakeTimeoutMs",
    "maxTlsHandshakes",
    "ackTimeoutMs",
    "maxAttempts",
    "maxWorkers",
    "joinIntervalMs",
    "backlog",
  ] as const;
  for (const name of positive) if (options[name] < 1) throw refuse(name, options[name], "1 or more");
  if (options.maxBodyBytes > MAX_BODY_BYTES) {
    throw refuse("maxBodyBytes", options.maxBodyBytes, `at most ${MAX_BODY_BYTES}`);
  }
  if (options.maxBodyBytesInFlight < options.maxBodyBytes) {
    throw refuse("maxBodyBytesInFlight", options.maxBodyBytesInFlight, "at least maxBodyBytes");
  }
  for (
    const [name, max] of [["keyRequestsPerMinute", MAX_RPM], [
      "keyConcurrentRequests",
      MAX_CONCURRENT,
    ]] as const
  ) {
    if (options[name] > max) throw refuse(name, options[name], `at most ${max}`);
  }
  if (options.apiKeys.some((key) => key.length === 0)) throw refuse("apiKeys", '""', "non-empty keys");
  return options;
}
