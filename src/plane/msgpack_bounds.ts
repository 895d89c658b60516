/**
 * Looks over MessagePack from a peer before a decoder that recurses and allocates sees it.
 *
 * Decoders trust what they read: nesting becomes their stack, a declared count becomes their allocation. This walk
 * needs neither, so whatever passes it is safe to hand on.
 */
import { TokenplaneError } from "../errors.ts";

/** What a peer's MessagePack may at most be. */
export interface MessagePackBounds {
  /** Nested arrays and maps; 1 allows one container at the top. */
  readonly maxDepth: number;
  /** Values in all, containers and map keys included. */
  readonly maxValues: number;
}

/**
 * Checks that `bytes` is exactly one MessagePack value within the bounds and without extension types.
 *
 * Throws `protocol` otherwise. Allocates one small array, whatever the input.
 */
export function checkMessagePack(bytes: Uint8Array, bounds: MessagePackBounds): void {
  const open = new Float64Array(bounds.maxDepth + 1);
  let depth = 0;
  open[0] = 1;
  let at = 0;
  let values = 0;
  while (true) {
    while (open[depth] === 0) {
      if (depth === 0) {
        if (at !== bytes.length) throw refuse(`${bytes.length - at} bytes follow the value`);
        return;
      }
      depth--;
    }
    open[depth] = open[depth]! - 1;
    if (++values > bounds.maxValues) throw refuse(`more than ${bounds.maxValues} values`);
    const byte = bytes[at++];
    if (byte === undefined) throw refuse("the value ends early");
    const children = containerSize(bytes, byte, at);
    at += lengthBytes(byte);
    if (children >= 0) {
      if (depth === bounds.maxDepth) throw refuse(`nested deeper than ${bounds.maxDepth}`);
      if (children > bytes.length - at) throw refuse("a container declares more values than there are bytes");
      open[++depth] = children;
    } else {
      at += scalarSize(bytes, byte, at);
    }
    if (at > bytes.length) throw refuse("the value ends early");
  }
}

/** Values inside the container that `byte` starts (its length field at `at`), or -1 when it starts none. */
function containerSize(bytes: Uint8Array, byte: number, at: number): number {
  if (byte >= 0x80 && byte <= 0x8f) return (byte & 0x0f) * 2;
  if (byte >= 0x90 && byte <= 0x9f) return byte & 0x0f;
  if (byte === 0xdc) return readLength(bytes, at, 2);
  if (byte === 0xdd) return readLength(bytes, at, 4);
  if (byte === 0xde) return readLength(bytes, at, 2) * 2;
  if (byte === 0xdf) return readLength(bytes, at, 4) * 2;
  return -1;
}

/** Bytes of the length field behind the type byte. */
function lengthBytes(byte: number): number {
  switch (byte) {
    case 0xc4:
    case 0xd9:
      return 1;
    case 0xc5:
    case 0xda:
    case 0xdc:
    case 0xde:
      return 2;
    case 0xc6:
    case 0xdb:
    case 0xdd:
    case 0xdf:
      return 4;
    default:
      return 0;
  }
}

/** Bytes of the scalar's content, which starts at `at`, behind any length field. */
function scalarSize(bytes: Uint8Array, byte: number, at: number): number {
  if (byte <= 0x7f || byte >= 0xe0) return 0;
  if (byte >= 0xa0 && byte <= 0xbf) return byte & 0x1f;
  switch (byte) {
    case 0xc0:
    case 0xc2:
    case 0xc3:
      return 0;
    case 0xcc:
    case 0xd0:
      return 1;
    case 0xcd:
    case 0xd1:
      return 2;
    case 0xca:
    case 0xce:
    case 0xd2:
      return 4;
    case 0xcb:
    case 0xcf:
    case 0xd3:
      return 8;
    case 0xc4:
    case 0xd9:
      return readLength(bytes, at - 1, 1);
    case 0xc5:
    case 0xda:
      return readLength(bytes, at - 2, 2);
    case 0xc6:
    case 0xdb:
      return readLength(bytes, at - 4, 4);
    default:
      throw refuse(`type byte 0x${byte.toString(16)} is not allowed`);
  }
}

function readLength(bytes: Uint8Array, at: number, width: number): number {
  if (at + width > bytes.length) throw refuse("the value ends early");
  let length = 0;
  for (let i = 0; i < width; i++) length = length * 256 + bytes[at + i]!;
  return length;
}

function refuse(why: string): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot decode MessagePack from a peer: ${why}`);
}
