/**
 * What `node:http` keeps to itself of a response, and an egress needs to send head and end of it together with chunks.
 *
 * The fields are the runtime's own. Nothing here is used before `choose.ts` has seen a whole exchange work by it.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** A larger head goes out by the response itself. */
const MAX_HEAD_BYTES = 2_048;
/** Last chunk and end of trailers. */
const TERMINATOR = new TextEncoder().encode("0\r\n\r\n");
/** Bytes that end a chunked body. */
export const TERMINATOR_BYTES: number = TERMINATOR.length;

interface OwnFields {
  /** The rendered head, once there is one. */
  _header?: string | null;
  /** Whether it has been handed to the connection. */
  _headerSent?: boolean;
}

/** The head that `writeHead` has rendered and nobody has sent; "" where there is none, or the body is not chunked. */
export function unsentHead(response: ServerResponse): string {
  const { _header: head, _headerSent: isSent } = response as OwnFields;
  const isUsable = typeof head === "string" && isSent === false && response.chunkedEncoding &&
    head.length <= MAX_HEAD_BYTES;
  return isUsable ? head : "";
}

/** The connection, when it is this response's turn and nothing that it was given before still waits; else null. */
export function idleSocket(response: ServerResponse): Socket | null {
  const { socket } = response;
  if (socket === null || socket.destroyed || response.destroyed) return null;
  const { _httpMessage: turn } = socket as { _httpMessage?: ServerResponse | null };
  return turn === response && socket.writableLength === 0 && response.writableLength === 0 ? socket : null;
}

/** Puts a head in front of `buffer[start…]`; returns where it starts. From then on the response takes it to be sent. */
export function putHead(response: ServerResponse, head: string, buffer: Uint8Array, start: number): number {
  (response as OwnFields)._headerSent = true;
  const at = start - head.length;
  // A head is Latin-1: `writeHead` refuses anything else.
  for (let i = 0; i < head.length; i++) buffer[at + i] = head.charCodeAt(i);
  return at;
}

/** Puts the end of a chunked body behind `buffer[…end)`; returns where that ends. */
export function putTerminator(buffer: Uint8Array, end: number): number {
  for (let i = 0; i < TERMINATOR.length; i++) buffer[end + i] = TERMINATOR[i]!;
  return end + TERMINATOR.length;
}

/** Ends a response whose terminator has been sent. */
export function endTerminated(response: ServerResponse): void {
  response.chunkedEncoding = false;
  response.end();
}
