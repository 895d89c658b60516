/**
 * Headers of the messenger, little-endian.
 *
 * Request (type message)                    Response (type response)      Ack / event (types ack, event)
 * 0     1  schema version = 1               0   16  response id           0  1   bit0: 1 = event; bit1: 1 = error
 * 1     1  response type                    16  1   outcome, 0 = ok       1  16  response id or event handle
 * 2    16  response id                      17  2   length of headers
 * 18    2  length of handler name, n >= 1   19  m   headers
 * 20    n  handler name, UTF-8
 * 20+n  2  length of headers, m
 * 22+n  m  headers: MessagePack map of str to str
 */
import { encode } from "@std/msgpack";
import { decodeMsgpack } from "../../transports/msgpack_guard.ts";
import { TokenplaneError } from "../errors.ts";

/** What the sender of a request expects back. */
export const ResponseType = Object.freeze({ fireAndForget: 0, ackNack: 1, unary: 2 });
/** One of {@linkcode ResponseType}. */
export type ResponseType = (typeof ResponseType)[keyof typeof ResponseType];

/** User and trace headers. */
export type Headers = Readonly<Record<string, string>>;

/** Bytes of a request header beside name and headers. */
export const REQUEST_FIXED_BYTES = 22;
/** Bytes of an ack header. */
export const ACK_BYTES = 17;
/** Where the response id starts in a request header. */
export const REQUEST_ID_AT = 2;
/** Largest encoded header map, in bytes. */
export const MAX_HEADERS_BYTES = 16_384;
const MAX_HEADER_VALUE_BYTES = 1_024;
const MAX_NAME_BYTES = 65_535;

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** A request header, decoded. `name` is a view into the header. */
export interface RequestHeader {
  readonly responseType: ResponseType;
  readonly name: Uint8Array;
  /** Null when absent. */
  readonly headers: Headers | null;
}

/**
 * A request header with an empty response id: the sender fills in 16 bytes at {@linkcode REQUEST_ID_AT}.
 * Throws `invalid_request` for a name or headers over the limits of the wire.
 */
export function encodeRequestHeader(
  responseType: ResponseType,
  name: string,
  headers?: Headers,
): Uint8Array<ArrayBuffer> {
  const nameBytes = encoder.encode(name);
  if (nameBytes.length === 0 || nameBytes.length > MAX_NAME_BYTES) {
    throw new TokenplaneError(
      "invalid_request",
      `Cannot encode handler name of ${nameBytes.length} bytes: allowed are 1 to ${MAX_NAME_BYTES}`,
    );
  }
  const map = headers === undefined ? null : encodeHeaders(headers);
  const n = nameBytes.length;
  const bytes = new Uint8Array(REQUEST_FIXED_BYTES + n + (map?.length ?? 0));
  bytes[0] = 1;
  bytes[1] = responseType;
  writeU16(bytes, 18, n);
  bytes.set(nameBytes, 20);
  writeU16(bytes, 20 + n, map?.length ?? 0);
  if (map !== null) bytes.set(map, 22 + n);
  return bytes;
}

/** Reads a request header. Throws `protocol` when it breaks the layout, `too_large` when its headers do. */
export function decodeRequestHeader(bytes: Uint8Array): RequestHeader {
  if (bytes.length < REQUEST_FIXED_BYTES) throw malformed(`${bytes.length} bytes are too few`);
  if (bytes[0] !== 1) throw malformed(`version ${bytes[0]} is unknown`);
  const responseType = bytes[1]!;
  if (responseType > 2) throw malformed(`response type ${responseType} is unknown`);
  const n = readU16(bytes, 18);
  if (n === 0 || REQUEST_FIXED_BYTES + n > bytes.length) throw malformed(`name length ${n} does not fit`);
  const m = readU16(bytes, 20 + n);
  const headersAt = REQUEST_FIXED_BYTES + n;
  if (m > MAX_HEADERS_BYTES || headersAt + m > bytes.length) {
    throw malformed(`headers length ${m} does not fit`);
  }
  return {
    responseType: responseType as ResponseType,
    name: bytes.subarray(20, 20 + n),
    headers: m === 0 ? null : decodeHeaders(bytes.subarray(headersAt, headersAt + m)),
  };
}

/** The text of a handler name. Throws `protocol` when it is no UTF-8. */
export function decodeName(name: Uint8Array): string {
  try {
    return decoder.decode(name);
  } catch (caught) {
    throw new TokenplaneError("protocol", "Cannot read request header: the name is no UTF-8", {
      cause: caught,
    });
  }
}

/** A response header that echoes the 16 response id bytes at `id[idAt…]`. */
export function encodeResponseHeader(
  id: Uint8Array,
  idAt: number,
  isError: boolean,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(19);
  bytes.set(id.subarray(idAt, idAt + 16));
  bytes[16] = isError ? 1 : 0;
  return bytes;
}

/** Whether a response header says "error". The response id is its first 16 bytes. Throws `protocol`. */
export function decodeResponseIsError(bytes: Uint8Array): boolean {
  if (bytes.length < 19) throw malformedReply("response", bytes.length);
  if (19 + readU16(bytes, 17) > bytes.length) throw malformedReply("response", bytes.length);
  return bytes[16] !== 0;
}

/** An ack header that echoes the 16 response id bytes at `id[idAt…]`. */
export function encodeAckHeader(id: Uint8Array, idAt: number, isError: boolean): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ACK_BYTES);
  bytes[0] = isError ? 2 : 0;
  bytes.set(id.subarray(idAt, idAt + 16), 1);
  return bytes;
}

/** What an ack header says. The response id is at byte 1. Throws `protocol`. */
export function decodeAck(bytes: Uint8Array): { isEvent: boolean; isError: boolean } {
  const flags = bytes[0];
  if (bytes.length !== ACK_BYTES || flags === undefined || flags > 3) {
    throw malformedReply("ack", bytes.length);
  }
  return { isEvent: (flags & 1) !== 0, isError: (flags & 2) !== 0 };
}

/** Writes a 16-bit integer, little-endian. */
export function writeU16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value & 0xff;
  bytes[at + 1] = value >>> 8;
}

/** Reads a 16-bit integer, little-endian; bytes that are not there count as 0. */
export function readU16(bytes: Uint8Array, at: number): number {
  return (bytes[at] ?? 0) | ((bytes[at + 1] ?? 0) << 8);
}

function encodeHeaders(headers: Headers): Uint8Array {
  for (const [key, value] of Object.entries(headers)) {
    if (key === "__proto__") {
      throw new TokenplaneError("invalid_request", `Cannot encode header "${key}": no peer would read it`);
    }
    if (encoder.encode(value).length > MAX_HEADER_VALUE_BYTES) {
      throw new TokenplaneError(
        "invalid_request",
        `Cannot encode header "${key}": its value is over ${MAX_HEADER_VALUE_BYTES} bytes`,
      );
    }
  }
  const bytes = encode(headers);
  if (bytes.length > MAX_HEADERS_BYTES) {
    throw new TokenplaneError(
      "invalid_request",
      `Cannot encode headers: they are over ${MAX_HEADERS_BYTES} bytes`,
    );
  }
  return bytes;
}

function decodeHeaders(bytes: Uint8Array): Headers {
  const value = decodeMsgpack(bytes, { maxBytes: MAX_HEADERS_BYTES, maxDepth: 1 });
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof Uint8Array) {
    throw malformed("headers are no map");
  }
  for (const item of Object.values(value)) {
    if (typeof item !== "string") throw malformed("a header is no text");
  }
  return value as Headers;
}

function malformed(why: string): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot read request header: ${why}`);
}

function malformedReply(what: string, length: number): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot read ${what} header: its ${length} bytes break the layout`);
}
