/**
 * What a client is told when something fails: OpenAI's nested shape, with a fixed text per code.
 *
 * Nothing of an error's message or cause reaches a client. The one exception is `wire` of `invalid_request`,
 * `model_not_found`, `too_large` and `rate_limited`: text that our own checks wrote about the client's own request.
 */
import { type ErrorCode, TokenplaneError } from "../errors.ts";
import type { Outcome } from "../outcome.ts";

/** A refusal as it goes to the client. */
export interface ErrorReply {
  readonly status: number;
  readonly body: ErrorBody;
}

/** OpenAI's error object. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

interface Shape {
  readonly status: number;
  readonly type: string;
  readonly code: string;
  readonly message: string;
}

const UPSTREAM: Shape = {
  status: 502,
  type: "internal_server_error",
  code: "upstream_error",
  message: "The worker could not complete the request.",
};
const INTERNAL: Shape = {
  status: 500,
  type: "internal_server_error",
  code: "internal_error",
  message: "The server had an error while processing the request.",
};

const SHAPES: Readonly<Record<ErrorCode, Shape>> = Object.freeze({
  invalid_request: {
    status: 400,
    type: "invalid_request_error",
    code: "invalid_request",
    message: "The request is not valid.",
  },
  unauthorized: {
    status: 401,
    type: "invalid_request_error",
    code: "invalid_api_key",
    message: "The API key is missing or not valid.",
  },
  model_not_found: {
    status: 404,
    type: "invalid_request_error",
    code: "model_not_found",
    message: "The model does not exist.",
  },
  too_large: {
    status: 413,
    type: "invalid_request_error",
    code: "request_too_large",
    message: "The request is too large.",
  },
  overloaded: {
    status: 429,
    type: "overloaded_error",
    code: "overloaded",
    message: "The server is at its capacity. Try again later.",
  },
  rate_limited: {
    status: 429,
    type: "requests",
    code: "rate_limit_exceeded",
    message: "Rate limit reached. Try again later.",
  },
  unavailable: {
    status: 503,
    type: "service_unavailable_error",
    code: "unavailable",
    message: "No worker can take the request now. Try again later.",
  },
  cancelled: {
    status: 499,
    type: "request_cancelled",
    code: "cancelled",
    message: "The client closed the request.",
  },
  timeout: {
    status: 504,
    type: "internal_server_error",
    code: "timeout",
    message: "The worker did not answer in time.",
  },
  protocol: UPSTREAM,
  connection: UPSTREAM,
  peer_unknown: UPSTREAM,
  handler_not_found: UPSTREAM,
  remote: UPSTREAM,
  closed: INTERNAL,
  invalid_config: INTERNAL,
  internal: INTERNAL,
});

const SPEAKS_OF_REQUEST: ReadonlySet<ErrorCode> = new Set([
  "invalid_request",
  "model_not_found",
  "too_large",
  "rate_limited",
]);

/** The answer to a request that failed before anything was written. `overloadStatus` replaces 429. */
export function errorReply(error: TokenplaneError, overloadStatus = 429): ErrorReply {
  const shape = SHAPES[error.code];
  const message = SPEAKS_OF_REQUEST.has(error.code) && error.wire !== undefined ? error.wire : shape.message;
  const status = error.code === "overloaded" ? overloadStatus : shape.status;
  const param = error.code === "model_not_found" ? "model" : null;
  return { status, body: { error: { message, type: shape.type, param, code: shape.code } } };
}

/** Errors of HTTP itself, outside the program's own codes. */
export function httpErrorBody(message: string, code: string): ErrorBody {
  return { error: { message, type: "invalid_request_error", param: null, code } };
}

/** An `invalid_request` that names what was wrong to the client. */
export function invalidRequest(text: string): TokenplaneError {
  return new TokenplaneError("invalid_request", text, { wire: text });
}

/** Why a stream that had begun was cut short, as the client sees it. */
export type BreakReason = Exclude<Outcome, "ok" | "cancelled"> | "shutting_down";

const BREAKS: Readonly<Record<BreakReason, string>> = Object.freeze({
  upstream_error: "The worker failed before the response was complete.",
  truncated: "The response ended before it was complete.",
  dropped: "The worker was lost before the response was complete.",
  timeout: "The worker stopped answering before the response was complete.",
  internal_error: "The server had an error before the response was complete.",
  shutting_down: "The server is shutting down.",
});

/** The error event for a stream that had begun, blank line included. */
export function errorEvent(reason: BreakReason): Uint8Array {
  return EVENTS[reason];
}

const encoder = new TextEncoder();

const EVENTS = Object.fromEntries(
  Object.entries(BREAKS).map(([reason, message]) => {
    const body: ErrorBody = {
      error: { message, type: "internal_server_error", param: null, code: reason },
    };
    return [reason, encoder.encode(`data: ${JSON.stringify(body)}\n\n`)];
  }),
) as Record<BreakReason, Uint8Array>;

/** Ends an event that a cut stream left open. */
export const BLANK_LINE: Uint8Array<ArrayBuffer> = new TextEncoder().encode("\n\n");
/** A comment: clients ignore it, connections stay up by it. */
export const KEEP_ALIVE: Uint8Array<ArrayBuffer> = new TextEncoder().encode(": keep-alive\n\n");
/** What every stream ends with. */
export const DONE_EVENT: Uint8Array = encoder.encode("data: [DONE]\n\n");
