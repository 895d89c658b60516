/** `decode` of `@std/msgpack`, on top of `@msgpack/msgpack`. */
import { decode as decodeWith } from "@msgpack/msgpack";
import type { ValueMap, ValueType } from "./types.ts";

export type { ValueMap, ValueType };

/** Decodes one MessagePack value. int64 and uint64 become bigints. Throws when bytes are missing or left over. */
export function decode(data: Uint8Array): ValueType {
  return decodeWith(data, { useBigInt64: true }) as ValueType;
}
