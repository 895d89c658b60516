/**
 * The frame that carries tokens: MessagePack `{"Item": value}` with a value that is `bin` (data) or `str` (text).
 *
 * | bytes | meaning |
 * |---|---|
 * | `81 a4 49 74 65 6d` | map of one entry, key "Item" |
 * | `c4 n` / `c5 nn` / `c6 nnnn` | data: bin of that many bytes |
 * | `a0`–`bf` / `d9 n` / `da nn` / `db nnnn` | text: str of that many bytes |
 */
import { readU32, writeU32 } from "./batch.ts";

const decoder = new TextDecoder();

/** Bytes before an item's value. */
export const ITEM_PREFIX_BYTES = 6;

/** The two kinds of item that this program sends. */
export type ItemKind = "data" | "text";

/** What {@linkcode readItem} found; one object may be reused. */
export interface ItemView {
  /** `other`: a well-formed frame start whose value is neither data nor text, or does not fill the frame exactly. */
  kind: ItemKind | "other";
  /** Payload start, as an offset into the buffer that was read. */
  start: number;
  /** Payload end, exclusive. */
  end: number;
}

/** An item object for {@linkcode readItem} to fill. */
export function newItemView(): ItemView {
  return { kind: "other", start: 0, end: 0 };
}

/** Whether `buf[start, end)` begins as an Item frame does and has a value. */
export function isItem(buf: Uint8Array, start: number, end: number): boolean {
  return end - start > ITEM_PREFIX_BYTES && buf[start] === 0x81 && buf[start + 1] === 0xa4 &&
    buf[start + 2] === 0x49 && buf[start + 3] === 0x74 && buf[start + 4] === 0x65 && buf[start + 5] === 0x6d;
}

/**
 * Reads the value of an Item frame that {@linkcode isItem} has accepted. The value must end where the frame ends:
 * anything else, an array of integers included, is `other` with an empty range.
 */
export function readItem(buf: Uint8Array, start: number, end: number, into: ItemView): ItemView["kind"] {
  return readValue(buf, start + ITEM_PREFIX_BYTES, end, into);
}

/** Reads one bin or str value that has to fill `buf[at, end)`; same results as {@linkcode readItem}. */
export function readValue(buf: Uint8Array, at: number, end: number, into: ItemView): ItemView["kind"] {
  const left = end - at;
  const marker = left > 0 ? buf[at]! : 0xc0;
  let kind: ItemKind = "text";
  let head = 1;
  let size = 0;
  if (marker >= 0xa0 && marker <= 0xbf) {
    size = marker & 0x1f;
  } else {
    switch (marker) {
      case 0xc4:
      case 0xd9:
        head = 2;
        if (left >= 2) size = buf[at + 1]!;
        break;
      case 0xc5:
      case 0xda:
        head = 3;
        if (left >= 3) size = (buf[at + 1]! << 8) | buf[at + 2]!;
        break;
      case 0xc6:
      case 0xdb:
        head = 5;
        if (left >= 5) size = readU32(buf, at + 1);
        break;
      default:
        head = -1;
    }
    if (marker < 0xd0) kind = "data";
  }
  if (head < 0 || head + size !== left) {
    into.start = into.end = end;
    return into.kind = "other";
  }
  into.start = at + head;
  into.end = end;
  return into.kind = kind;
}

/** The text of a text item's payload; bytes that are not UTF-8 become replacement characters. */
export function decodeItemText(bytes: Uint8Array, start: number, end: number): string {
  return decoder.decode(bytes.subarray(start, end));
}

/** Bytes that come before the payload of an item of `n` payload bytes. */
export function itemHeaderBytes(kind: ItemKind, n: number): number {
  if (kind === "text" && n < 32) return ITEM_PREFIX_BYTES + 1;
  return ITEM_PREFIX_BYTES + (n <= 0xff ? 2 : n <= 0xffff ? 3 : 5);
}

/** Writes all of an Item frame up to its payload and returns where the payload goes. */
export function writeItemHeader(buf: Uint8Array, at: number, kind: ItemKind, n: number): number {
  buf[at] = 0x81;
  buf[at + 1] = 0xa4;
  buf[at + 2] = 0x49;
  buf[at + 3] = 0x74;
  buf[at + 4] = 0x65;
  buf[at + 5] = 0x6d;
  return kind === "data" ? writeSizeHeader(buf, at + 6, 0xc4, n) : writeStringHeader(buf, at + 6, n);
}

/** Writes the shortest MessagePack str header for `n` bytes; returns where the bytes go. */
export function writeStringHeader(buf: Uint8Array, at: number, n: number): number {
  if (n >= 32) return writeSizeHeader(buf, at, 0xd9, n);
  buf[at] = 0xa0 | n;
  return at + 1;
}

function writeSizeHeader(buf: Uint8Array, at: number, marker8: number, n: number): number {
  if (n <= 0xff) {
    buf[at] = marker8;
    buf[at + 1] = n;
    return at + 2;
  }
  if (n <= 0xffff) {
    buf[at] = marker8 + 1;
    buf[at + 1] = n >>> 8;
    buf[at + 2] = n;
    return at + 3;
  }
  buf[at] = marker8 + 2;
  writeU32(buf, at + 1, n);
  return at + 5;
}
