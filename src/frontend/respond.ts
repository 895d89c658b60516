/** Answers that are not streamed, written on the node response: whole, with a length, once. */
import { Buffer } from "node:buffer";
import type { ServerResponse } from "node:http";
import type { TokenplaneError } from "../errors.ts";
import { errorReply } from "./error_body.ts";
import type { FrontendOptions } from "./options.ts";

/** The part of the settings that answers depend on. */
export type ReplyOptions = Pick<FrontendOptions, "overloadStatus" | "retryAfterSeconds">;

/** Sends a whole body. Does nothing when the client is gone or something has been sent. */
export function sendBody(
  response: ServerResponse,
  status: number,
  contentType: string,
  body: string | Uint8Array,
  requestId: string,
  extra?: Readonly<Record<string, string>>,
): void {
  if (response.destroyed || response.headersSent) return;
  const bytes = typeof body === "string" ? Buffer.from(body) : body;
  response.writeHead(status, {
    "content-type": contentType,
    "content-length": bytes.length,
    "x-request-id": requestId,
    ...extra,
  });
  response.end(bytes);
}

/** Sends a JSON value. */
export function sendJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  requestId: string,
  extra?: Readonly<Record<string, string>>,
): void {
  sendBody(response, status, "application/json", JSON.stringify(value), requestId, extra);
}

/** Sends the answer for an error; returns its status. */
export function sendError(
  response: ServerResponse,
  error: TokenplaneError,
  requestId: string,
  options: ReplyOptions,
): number {
  const { status, body } = errorReply(error, options.overloadStatus);
  const isRetryable = error.code === "overloaded" || error.code === "unavailable";
  const extra: Record<string, string> = isRetryable
    ? { "retry-after": `${options.retryAfterSeconds}` }
    : error.code === "unauthorized"
    ? { "www-authenticate": "Bearer" }
    : {};
  sendJson(response, status, body, requestId, extra);
  return status;
}
