/**
 * JSON whose integers survive: ids on the wire are full u64, more than a JS number holds.
 *
 * In: an integer outside the safe range becomes a bigint, every other number a number. Out: bigints are written as
 * bare integers. Size and nesting are checked before the parser sees a byte.
 */
import { TokenplaneError } from "../errors.ts";

/** Bounds for {@linkcode parseJson}. */
export interface JsonBounds {
  /** Bytes of the whole text. */
  maxBytes: number;
  /** Nested arrays and objects. */
  maxDepth: number;
}

/** Bounds for control messages. A request that carries a prompt may be as large as a staged payload. */
export const DEFAULT_JSON_BOUNDS: Readonly<JsonBounds> = Object.freeze({
  maxBytes: 67_108_864,
  maxDepth: 64,
});

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;
// The language's library types lag behind the engine here.
const parseWithSource = JSON.parse as (text: string, reviver?: Reviver) => unknown;
const rawJson = (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON;

const decoder = new TextDecoder("utf-8", { fatal: true });
const encoder = new TextEncoder();
const LONG_NUMBER = /\d{16}/;
const INTEGER = /^-?\d+$/;

/**
 * Parses JSON bytes. An empty input is `null`, as peers send it for "no argument".
 * Throws `too_large` over a bound and `protocol` when it is no JSON or no UTF-8.
 */
export function parseJson(bytes: Uint8Array, bounds: JsonBounds = DEFAULT_JSON_BOUNDS): unknown {
  if (bytes.length === 0) return null;
  if (bytes.length > bounds.maxBytes) {
    throw new TokenplaneError(
      "too_large",
      `Cannot read JSON of ${bytes.length} bytes: the limit is ${bounds.maxBytes}`,
    );
  }
  checkDepth(bytes, bounds.maxDepth);
  try {
    const text = decoder.decode(bytes);
    // A reviver costs a call per value; only text that may hold a long integer needs one.
    return LONG_NUMBER.test(text) ? parseWithSource(text, reviveLongInteger) : JSON.parse(text);
  } catch (caught) {
    throw new TokenplaneError("protocol", "Cannot read JSON: it is malformed", { cause: caught });
  }
}

/** Writes a value as JSON bytes, bigints as bare integers. `undefined` is written as `null`. */
export function stringifyJson(value: unknown): Uint8Array<ArrayBuffer> {
  return encoder.encode(JSON.stringify(value, replaceBigint) ?? "null");
}

function reviveLongInteger(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== "number" || Number.isSafeInteger(value)) return value;
  const source = context.source;
  return source !== undefined && INTEGER.test(source) ? BigInt(source) : value;
}

function replaceBigint(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? rawJson(value.toString()) : value;
}

function checkDepth(bytes: Uint8Array, maxDepth: number): void {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i];
    if (inString) {
      if (byte === 0x5c) i++;
      else if (byte === 0x22) inString = false;
    } else if (byte === 0x22) {
      inString = true;
    } else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > maxDepth) {
        throw new TokenplaneError("too_large", `Cannot read JSON: nested deeper than ${maxDepth}`);
      }
    } else if (byte === 0x7d || byte === 0x5d) {
      depth--;
    }
  }
}
