/**
 * Looks over MessagePack from a peer before a decoder sees it.
 *
 * Decoders recurse per nesting level and allocate what a length field claims; this walks the bytes once, with a
 * stack of fixed size and no allocation by declared length, and says how many bytes the first value takes.
 */
import { decode } from "@std/msgpack";
import { TokenplaneError } from "../src/errors.ts";

/** Bounds for {@linkcode measureMsgpack}. */
export interface MsgpackBounds {
  /** Bytes of the whole value. */
  maxBytes: number;
  /** Nested arrays and maps. */
  maxDepth: number;
  /** Values in all, containers and map keys included: a decoder makes one object or more of each. Default: no bound. */
  maxValues?: number;
}

/**
 * The first MessagePack value in `bytes`; what follows it is ignored. Throws `too_large` when it is over a bound, else
 * `protocol`.
 */
export function decodeMsgpack(bytes: Uint8Array, bounds: MsgpackBounds): unknown {
  const length = measureMsgpack(bytes, bounds);
  try {
    return decode(bytes.subarray(0, length));
  } catch (caught) {
    throw new TokenplaneError("protocol", "Cannot read MessagePack: it is malformed", { cause: caught });
  }
}

/**
 * Bytes of the first MessagePack value in `bytes`. Throws `too_large` when it is over a bound, `protocol` when it is
 * cut short or uses a type that this program's peers never send (extensions, floats, reserved).
 */
export function measureMsgpack(bytes: Uint8Array, bounds: MsgpackBounds): number {
  const { maxValues = Infinity } = bounds;
  const left: number[] = [1];
  let at = 0;
  let values = 0;
  while (left.length > 0) {
    const depth = left.length - 1;
    if (left[depth] === 0) {
      left.pop();
      continue;
    }
    left[depth]!--;
    if (++values > maxValues) {
      throw new TokenplaneError("too_large", `Cannot read MessagePack: more than ${maxValues} values`);
    }
    const marker = byteAt(bytes, at++);
    let skip = 0;
    let children = 0;
    if (marker <= 0x7f || marker >= 0xe0 || marker === 0xc0 || marker === 0xc2 || marker === 0xc3) skip = 0;
    else if (marker <= 0x8f) children = 2 * (marker & 0x0f);
    else if (marker <= 0x9f) children = marker & 0x0f;
    else if (marker <= 0xbf) skip = marker & 0x1f;
    else {
      const width = LENGTH_WIDTH[marker];
      if (width !== undefined) {
        const length = uintAt(bytes, at, width);
        at += width;
        if (marker <= 0xc6 || (marker >= 0xd9 && marker <= 0xdb)) skip = length;
        else children = marker >= 0xde ? 2 * length : length;
      } else {
        const fixed = FIXED_BYTES[marker];
        if (fixed === undefined) {
          throw new TokenplaneError(
            "protocol",
            `Cannot read MessagePack: type 0x${marker.toString(16)} at ${at - 1}`,
          );
        }
        skip = fixed;
      }
    }
    at += skip;
    // Every child takes one byte at least, so a count beyond the bytes that are there is a lie.
    if (at + children > bytes.length) throw cutShort();
    if (at > bounds.maxBytes) {
      throw new TokenplaneError("too_large", `Cannot read MessagePack: more than ${bounds.maxBytes} bytes`);
    }
    if (children > 0) {
      if (left.length > bounds.maxDepth) {
        throw new TokenplaneError(
          "too_large",
          `Cannot read MessagePack: nested deeper than ${bounds.maxDepth}`,
        );
      }
      left.push(children);
    }
  }
  return at;
}

/** Bytes of the length field that follows the marker: bin, str, array, map. */
const LENGTH_WIDTH: Readonly<Record<number, number>> = {
  0xc4: 1,
  0xc5: 2,
  0xc6: 4,
  0xd9: 1,
  0xda: 2,
  0xdb: 4,
  0xdc: 2,
  0xdd: 4,
  0xde: 2,
  0xdf: 4,
};

/** Bytes that follow the marker: integers. */
const FIXED_BYTES: Readonly<Record<number, number>> = {
  0xcc: 1,
  0xcd: 2,
  0xce: 4,
  0xcf: 8,
  0xd0: 1,
  0xd1: 2,
  0xd2: 4,
  0xd3: 8,
};

function byteAt(bytes: Uint8Array, at: number): number {
  const byte = bytes[at];
  if (byte === undefined) throw cutShort();
  return byte;
}

function uintAt(bytes: Uint8Array, at: number, width: number): number {
  let value = 0;
  for (let i = 0; i < width; i++) value = value * 256 + byteAt(bytes, at + i);
  return value;
}

function cutShort(): TokenplaneError {
  return new TokenplaneError("protocol", "Cannot read MessagePack: it is cut short");
}
