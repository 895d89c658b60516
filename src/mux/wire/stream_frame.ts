/**
 * The frames of a stream, as MessagePack's externally tagged enum:
 *
 * | frame | bytes | ends the slot |
 * |---|---|---|
 * | Item(value) | `81 a4 "Item"` value (see `item_frame.ts`) | no |
 * | SenderError(text) | `81 ab "SenderError"` str | no |
 * | Dropped | `a7 "Dropped"` | yes |
 * | Detached | `a8 "Detached"` | yes |
 * | Finalized | `a9 "Finalized"` | yes |
 * | Heartbeat | `a9 "Heartbeat"` | no |
 * | TransportError(text) | `81 ae "TransportError"` str | yes |
 */
import { isItem, type ItemView, newItemView, readValue, writeStringHeader } from "./item_frame.ts";

export {
  isItem,
  itemHeaderBytes,
  type ItemKind,
  type ItemView,
  newItemView,
  readItem,
  writeItemHeader,
} from "./item_frame.ts";

const encoder = new TextEncoder();
const lossyDecoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** The unit frame Finalized: the only clean end. Callers must not write to it (nor to the other three). */
export const FINALIZED: Uint8Array = unitFrame("Finalized");
/** The unit frame Dropped. */
export const DROPPED: Uint8Array = unitFrame("Dropped");
/** The unit frame Detached. */
export const DETACHED: Uint8Array = unitFrame("Detached");
/** The unit frame Heartbeat. */
export const HEARTBEAT: Uint8Array = unitFrame("Heartbeat");

const SENDER_ERROR_PREFIX = taggedPrefix("SenderError");
const TRANSPORT_ERROR_PREFIX = taggedPrefix("TransportError");

/** Longest error text that is sent or read, in bytes of UTF-8. */
export const MAX_ERROR_TEXT_BYTES = 4096;

/** What a frame is. Terminal kinds are the highest, so that {@linkcode isTerminal} is one comparison. */
export const FrameKind = Object.freeze({
  item: 0,
  senderError: 1,
  heartbeat: 2,
  invalid: 3,
  dropped: 4,
  detached: 5,
  finalized: 6,
  transportError: 7,
});
/** One of {@linkcode FrameKind}. */
export type FrameKind = (typeof FrameKind)[keyof typeof FrameKind];

/** Tells what `buf[start, end)` is from its first bytes. An error frame needs a whole string to its exact end. */
export function classifyFrame(buf: Uint8Array, start: number, end: number): FrameKind {
  if (isItem(buf, start, end)) return FrameKind.item;
  if (end <= start) return FrameKind.invalid;
  switch (buf[start]) {
    case 0xa7:
      return equals(buf, start, end, DROPPED) ? FrameKind.dropped : FrameKind.invalid;
    case 0xa8:
      return equals(buf, start, end, DETACHED) ? FrameKind.detached : FrameKind.invalid;
    case 0xa9:
      if (equals(buf, start, end, FINALIZED)) return FrameKind.finalized;
      return equals(buf, start, end, HEARTBEAT) ? FrameKind.heartbeat : FrameKind.invalid;
    case 0x81:
      if (hasText(buf, start, end, TRANSPORT_ERROR_PREFIX)) return FrameKind.transportError;
      return hasText(buf, start, end, SENDER_ERROR_PREFIX) ? FrameKind.senderError : FrameKind.invalid;
    default:
      return FrameKind.invalid;
  }
}

/** Whether a frame of that kind ends its slot. */
export function isTerminal(kind: FrameKind): boolean {
  return kind >= FrameKind.dropped;
}

/** The frame TransportError; the text is cut at {@linkcode MAX_ERROR_TEXT_BYTES}, between characters. */
export function encodeTransportError(message: string): Uint8Array<ArrayBuffer> {
  return textFrame(TRANSPORT_ERROR_PREFIX, message);
}

/** The frame SenderError; the text is cut as in {@linkcode encodeTransportError}. */
export function encodeSenderError(message: string): Uint8Array<ArrayBuffer> {
  return textFrame(SENDER_ERROR_PREFIX, message);
}

/**
 * The text of an error frame, never longer than {@linkcode MAX_ERROR_TEXT_BYTES} bytes and never throwing: bytes that
 * are not UTF-8 become replacement characters. Empty for a frame that is no error frame.
 */
export function decodeErrorText(buf: Uint8Array, start: number, end: number): string {
  const prefix = startsWith(buf, start, end, TRANSPORT_ERROR_PREFIX)
    ? TRANSPORT_ERROR_PREFIX
    : SENDER_ERROR_PREFIX;
  if (!hasText(buf, start, end, prefix)) return "";
  const from = textView.start;
  const to = Math.min(textView.end, from + MAX_ERROR_TEXT_BYTES);
  return lossyDecoder.decode(buf.subarray(from, to < textView.end ? characterStart(buf, to, from) : to));
}

// Reused: reading is synchronous and the result is used before the next read.
const textView: ItemView = newItemView();

function unitFrame(name: string): Uint8Array {
  const frame = new Uint8Array(1 + name.length);
  frame[0] = 0xa0 | name.length;
  encoder.encodeInto(name, frame.subarray(1));
  return frame;
}

function taggedPrefix(name: string): Uint8Array {
  const frame = new Uint8Array(2 + name.length);
  frame[0] = 0x81;
  frame.set(unitFrame(name), 1);
  return frame;
}

function textFrame(prefix: Uint8Array, message: string): Uint8Array<ArrayBuffer> {
  // A character is at least one byte, so this much of the string is always enough and bounds the encoding's cost.
  let text = encoder.encode(message.slice(0, MAX_ERROR_TEXT_BYTES));
  if (text.length > MAX_ERROR_TEXT_BYTES) {
    text = text.subarray(0, characterStart(text, MAX_ERROR_TEXT_BYTES, 0));
  }
  const frame = new Uint8Array(prefix.length + 3 + text.length);
  frame.set(prefix);
  const at = writeStringHeader(frame, prefix.length, text.length);
  frame.set(text, at);
  return frame.subarray(0, at + text.length);
}

/** The last character boundary at or before `at`, looking at most one character back. */
function characterStart(buf: Uint8Array, at: number, floor: number): number {
  for (let back = at; back > floor && back > at - 4; back--) {
    if ((buf[back]! & 0xc0) !== 0x80) return back;
  }
  return at;
}

function equals(buf: Uint8Array, start: number, end: number, frame: Uint8Array): boolean {
  return end - start === frame.length && startsWith(buf, start, end, frame);
}

function startsWith(buf: Uint8Array, start: number, end: number, prefix: Uint8Array): boolean {
  if (end - start < prefix.length) return false;
  for (let i = 0; i < prefix.length; i++) {
    if (buf[start + i] !== prefix[i]) return false;
  }
  return true;
}

/** Whether the frame is `prefix` and one whole string, whose range is left in `textView`. */
function hasText(buf: Uint8Array, start: number, end: number, prefix: Uint8Array): boolean {
  return startsWith(buf, start, end, prefix) &&
    readValue(buf, start + prefix.length, end, textView) === "text";
}
