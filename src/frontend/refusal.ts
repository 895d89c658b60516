/** What a worker's refusal of a request means, and what follows from it. */
import { type ErrorCode, TokenplaneError } from "../errors.ts";

/** What to do with a request that a worker did not take. */
export interface Refusal {
  /** What the client gets when nobody else takes it. */
  readonly error: TokenplaneError;
  /** Another worker may do better. */
  readonly mayRetry: boolean;
  /** What it says of the worker. */
  readonly worker: "fine" | "lost" | "draining";
}

/** Codes that a worker may put in front of its text, as `overloaded: …`. The text is for the log alone. */
const TYPED: ReadonlySet<string> = new Set<ErrorCode>([
  "invalid_request",
  "unauthorized",
  "model_not_found",
  "too_large",
  "overloaded",
  "unavailable",
  "timeout",
  "internal",
]);

/** Judges the error that `requestAck` rejected with. */
export function judgeRefusal(error: TokenplaneError): Refusal {
  switch (error.code) {
    case "unavailable":
      return { error, mayRetry: true, worker: "draining" };
    case "connection":
    case "peer_unknown":
      return { error, mayRetry: true, worker: "lost" };
    case "handler_not_found":
      return { error, mayRetry: true, worker: "fine" };
    case "remote":
      return judgeRemote(error);
    default:
      // A request that timed out may be running; one that broke the protocol would do so again.
      return { error, mayRetry: false, worker: "fine" };
  }
}

/** The peer's handler said no: its text starts with one of our codes when it is a refusal of a stated kind. */
function judgeRemote(error: TokenplaneError): Refusal {
  const code = /^[a-z_]+(?=:|$)/.exec(error.message)?.[0];
  if (code === undefined || !TYPED.has(code)) return { error, mayRetry: false, worker: "fine" };
  const typed = new TokenplaneError(code as ErrorCode, error.message, { cause: error });
  if (code === "unavailable") return { error: typed, mayRetry: true, worker: "draining" };
  const mayRetry = code === "overloaded" || code === "model_not_found";
  return { error: typed, mayRetry, worker: "fine" };
}
