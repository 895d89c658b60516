/** A MessagePack value. 64-bit integers are bigints, binary data is a Uint8Array. */
export type ValueType =
  | number
  | bigint
  | string
  | boolean
  | null
  | Uint8Array
  | readonly ValueType[]
  | ValueMap;

/** A MessagePack map. */
export interface ValueMap {
  [index: string | number]: ValueType;
}
