/**
 * The one error type of the program.
 *
 * A closed set of codes lets a caller narrow in a `switch`; `scope` says how much is broken; `wire` is the text a peer
 * is told. What an HTTP client sees is chosen from the code alone (see `frontend/error_body.ts`); the cause is for logs.
 */

/** Every failure this program names. */
export type ErrorCode =
  | "invalid_config" // a setting that cannot be honoured; the process must not start
  | "invalid_request" // a request that breaks a stated rule
  | "unauthorized" // a request without a right key
  | "model_not_found" // no worker serves the named model
  | "too_large" // a declared or counted size over its limit
  | "overloaded" // a cap of ours is reached
  | "rate_limited" // a client is at the limits of its key
  | "unavailable" // nobody can serve this now, or we are draining
  | "cancelled" // the consumer went away or asked to stop
  | "timeout" // a deadline passed
  | "protocol" // a peer broke the wire format or its rules
  | "connection" // a connection could not be made or was lost
  | "peer_unknown" // a send to a peer that nobody registered
  | "handler_not_found" // the peer has no handler of that name
  | "remote" // the peer's handler failed; the message is the peer's
  | "closed" // used after close
  | "internal"; // a bug of ours

/** How much of the program an error takes with it. */
export type ErrorScope = "request" | "stream" | "session" | "process";

/** What {@linkcode TokenplaneError} takes beside code and message. */
export interface ErrorDetail {
  scope?: ErrorScope;
  /** Text that may be sent to a peer; nothing of `cause` ever is. */
  wire?: string;
  cause?: unknown;
}

/** An error with a code. */
export class TokenplaneError extends Error {
  override readonly name = "TokenplaneError";
  readonly code: ErrorCode;
  readonly scope: ErrorScope;
  readonly wire: string | undefined;

  constructor(code: ErrorCode, message: string, detail: ErrorDetail = {}) {
    super(message, detail.cause === undefined ? undefined : { cause: detail.cause });
    this.code = code;
    this.scope = detail.scope ?? "request";
    this.wire = detail.wire;
  }
}

/** Turns anything caught into a {@linkcode TokenplaneError}; one that already is passes through. */
export function toTokenplaneError(caught: unknown, code: ErrorCode = "internal"): TokenplaneError {
  if (caught instanceof TokenplaneError) return caught;
  const message = caught instanceof Error ? caught.message : String(caught);
  return new TokenplaneError(code, message, { cause: caught });
}
