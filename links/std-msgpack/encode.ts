/** `encode` of `@std/msgpack`, on top of `@msgpack/msgpack`. */
import { Encoder } from "@msgpack/msgpack";
import type { ValueMap, ValueType } from "./types.ts";

export type { ValueMap, ValueType };

const MAX_UINT64 = 0xffff_ffff_ffff_ffffn;
const MIN_INT64 = -0x8000_0000_0000_0000n;

/** A larger result leaves its encoder's memory to the collector. */
const MAX_KEPT_BYTES = 65_536;

let encoder = newEncoder();

function newEncoder(): Encoder {
  return new Encoder({ useBigInt64: true });
}

/** Encodes a value as MessagePack. Bigints become int64 or uint64. Throws on anything that is not a value. */
export function encode(object: ValueType): Uint8Array<ArrayBuffer> {
  check(object);
  const bytes = encoder.encode(object);
  if (bytes.length > MAX_KEPT_BYTES) encoder = newEncoder();
  return bytes;
}

/** The npm package wraps large bigints around and writes undefined as nil; the API promises an error instead. */
function check(value: unknown): void {
  if (typeof value === "bigint") {
    if (value > MAX_UINT64 || value < MIN_INT64) {
      throw new Error(`Cannot safely encode bigint ${value}: it needs more than 64 bits`);
    }
  } else if (Array.isArray(value)) {
    for (const item of value) check(item);
  } else if (typeof value === "object" && value !== null && !(value instanceof Uint8Array)) {
    const prototype = Object.getPrototypeOf(value);
    if (prototype !== null && prototype !== Object.prototype) {
      throw new Error("Cannot safely encode value into messagepack: it is neither a plain object nor bytes");
    }
    for (const item of Object.values(value)) check(item);
  } else if (value === undefined || typeof value === "function" || typeof value === "symbol") {
    throw new Error(`Cannot safely encode value into messagepack: it is of type ${typeof value}`);
  }
}
