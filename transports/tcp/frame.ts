/**
 * One frame on a TCP connection, integers big-endian:
 *
 * 0   2  schema version, always 1
 * 2   1  message type, 0 to 4
 * 3   4  header length
 * 7   4  payload length
 * 11  …  header, payload
 *
 * Frames lie back to back. Any breach closes the connection: there is nothing to find the next frame by.
 */
import { TokenplaneError } from "../../src/errors.ts";
import { MAX_FRAME_BYTES, type MessageType } from "../contract.ts";
import { totalBytes } from "../stats.ts";

/** Bytes in front of the header. */
export const PREAMBLE_BYTES = 11;
const VERSION = 1;
const MAX_TYPE = 4;

/** Writes the preamble of a frame whose sizes have been checked. */
export function writePreamble(
  into: Uint8Array,
  at: number,
  type: MessageType,
  headerBytes: number,
  payloadBytes: number,
): void {
  into[at] = 0;
  into[at + 1] = VERSION;
  into[at + 2] = type;
  writeU32(into, at + 3, headerBytes);
  writeU32(into, at + 7, payloadBytes);
}

/** Writes a whole frame to `into[at…]`; returns where it ends. The caller has made sure of the room. */
export function writeFrame(
  into: Uint8Array,
  at: number,
  type: MessageType,
  header: Uint8Array,
  parts: readonly Uint8Array[],
  payloadBytes: number,
): number {
  writePreamble(into, at, type, header.length, payloadBytes);
  into.set(header, at + PREAMBLE_BYTES);
  let end = at + PREAMBLE_BYTES + header.length;
  for (let i = 0; i < parts.length; i++) {
    into.set(parts[i]!, end);
    end += parts[i]!.length;
  }
  return end;
}

/** A frame as bytes of its own. Throws `too_large` over {@linkcode MAX_FRAME_BYTES}. */
export function encodeFrame(
  type: MessageType,
  header: Uint8Array,
  payload: Uint8Array,
): Uint8Array<ArrayBuffer> {
  checkFrameBytes(header.length + payload.length);
  const bytes = new Uint8Array(PREAMBLE_BYTES + header.length + payload.length);
  writeFrame(bytes, 0, type, header, [payload], totalBytes([payload]));
  return bytes;
}

/** Throws `too_large` when header and payload together are over {@linkcode MAX_FRAME_BYTES}. */
export function checkFrameBytes(bytes: number): void {
  if (bytes > MAX_FRAME_BYTES) {
    throw new TokenplaneError("too_large", `Cannot frame ${bytes} bytes: the limit is ${MAX_FRAME_BYTES}`);
  }
}

/**
 * Checks the preamble at `bytes[at…]`, of which {@linkcode PREAMBLE_BYTES} are there, and returns header + payload
 * bytes. Throws `protocol` or `too_large`. The caller reads type and header length with the functions below.
 */
export function checkPreamble(bytes: Uint8Array, at: number): number {
  const version = bytes[at]! * 256 + bytes[at + 1]!;
  if (version !== VERSION) {
    throw new TokenplaneError(
      "protocol",
      `Cannot read frame: version ${version} is unknown, allowed is ${VERSION}`,
    );
  }
  const type = bytes[at + 2]!;
  if (type > MAX_TYPE) {
    throw new TokenplaneError(
      "protocol",
      `Cannot read frame: type ${type} is unknown, allowed are 0 to ${MAX_TYPE}`,
    );
  }
  const total = headerBytesAt(bytes, at) + readU32(bytes, at + 7);
  if (total > MAX_FRAME_BYTES) {
    throw new TokenplaneError(
      "too_large",
      `Cannot read frame of ${total} bytes: the limit is ${MAX_FRAME_BYTES}`,
    );
  }
  return total;
}

/** Type of a checked preamble. */
export function typeAt(bytes: Uint8Array, at: number): MessageType {
  return bytes[at + 2] as MessageType;
}

/** Header length of a checked preamble. */
export function headerBytesAt(bytes: Uint8Array, at: number): number {
  return readU32(bytes, at + 3);
}

function writeU32(into: Uint8Array, at: number, value: number): void {
  into[at] = value >>> 24;
  into[at + 1] = value >>> 16;
  into[at + 2] = value >>> 8;
  into[at + 3] = value;
}

function readU32(bytes: Uint8Array, at: number): number {
  return bytes[at]! * 0x1000000 + ((bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!);
}
