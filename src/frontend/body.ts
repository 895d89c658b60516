/** Takes a request's body off the connection, within limits. */
import type { IncomingMessage } from "node:http";
import { TokenplaneError } from "../errors.ts";
import { invalidRequest } from "./error_body.ts";
import { GatheredBody } from "./gathered_body.ts";

/** Bytes that all bodies being read may hold together. */
export class BodyBudget {
  readonly limit: number;
  held = 0;

  constructor(limit: number) {
    this.limit = limit;
  }
}

/** Gets the body, or why there is none: `too_large`, `overloaded`, `invalid_request`, or `cancelled` (client gone). */
export type BodyResult = (error: TokenplaneError | null, body: Uint8Array) => void;

const NO_BODY = new Uint8Array(0);
/** Pieces that any body may come in, however small they are. */
const FREE_PIECES = 1_024;
/** Bytes that the pieces beyond must have on average: each costs the time of hundreds of bytes. */
const MEAN_PIECE_BYTES = 16;

/** Reads the body of `request` and calls `done` once. The head's declared length is checked before a byte is read. */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  budget: BodyBudget,
  done: BodyResult,
): void {
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > maxBytes) return done(tooLarge(maxBytes), NO_BODY);
  const encoding = request.headers["content-encoding"];
  if (encoding !== undefined && encoding !== "identity") {
    return done(invalidRequest(`The body must not be encoded, but is "${encoding.slice(0, 32)}".`), NO_BODY);
  }

  // A client may send its body in pieces of one byte: none of them is kept as it came.
  const body = new GatheredBody(maxBytes);

  let pieces = 0;

  function finish(error: TokenplaneError | null): void {
    request.off("data", onData);
    request.off("end", onEnd);
    request.off("close", onGone);
    budget.held -= body.length;
    if (error !== null) {
      // Whatever still comes is read and thrown away by the server, until it closes the connection.
      request.resume();
      return done(error, NO_BODY);
    }
    done(null, body.join());
  }
  function onData(chunk: Uint8Array): void {
    if (!body.push(chunk, 0, chunk.length)) return finish(tooLarge(maxBytes));
    budget.held += chunk.length;
    if (++pieces > FREE_PIECES + body.length / MEAN_PIECE_BYTES) {
      finish(invalidRequest("The body comes in too many pieces."));
      // Nothing is to be gained from reading the rest, and the answer can wait for nobody.
      request.destroy();
    } else if (budget.held > budget.limit) {
      finish(new TokenplaneError("overloaded", "Cannot read a request body: too many are being read"));
    }
  }
  function onEnd(): void {
    finish(null);
  }
  function onGone(): void {
    finish(new TokenplaneError("cancelled", "Cannot read a request body: the client left"));
  }
  request.on("data", onData);
  request.on("end", onEnd);
  request.on("close", onGone);
}

function tooLarge(limit: number): TokenplaneError {
  const text = `The body is larger than the limit of ${limit} bytes.`;
  return new TokenplaneError("too_large", text, { wire: text });
}
