/**
 * Watches a server-sent event stream go by, byte for byte, and says where its events are.
 *
 * The relay sends bytes on as they came; nothing here can change them. Lines end in LF, CRLF or CR, and any of it may
 * be cut anywhere: a CR and its LF, a character, the BOM. Time is linear in the input, memory bounded by the limit.
 */

/** Takes what the tap finds. Views are valid only during the call. */
export interface SseSink {
  /**
   * One event's data, its lines joined by LF. `terminated` is false for a last event without its blank line.
   */
  onEvent(bytes: Uint8Array, start: number, end: number, terminated: boolean): void;
  /** A line `event: error`, or the non-standard `error: …` of old llama.cpp servers. */
  onErrorLine(): void;
}

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
const SPACE = 0x20;
const DATA = new TextEncoder().encode("data");
const EVENT = new TextEncoder().encode("event");
const ERROR = new TextEncoder().encode("error");
const EMPTY = new Uint8Array();

/** Incremental reader of one stream. */
export class SseTap {
  readonly #sink: SseSink;
  readonly #maxEventBytes: number;
  /** The beginning of a line whose end has not come. */
  #line: Uint8Array = EMPTY;
  #lineLength = 0;
  /** Data of the open event that had to be copied. */
  #data: Uint8Array = EMPTY;
  #dataLength = 0;
  /** Data lines of the open event, the held one included. */
  #dataLines = 0;
  /** The first data line of the open event, still in the buffer it came in; only within one `feed`. */
  #held: Uint8Array | null = null;
  #heldStart = 0;
  #heldEnd = 0;
  #isFirstLine = true;
  #isAfterCr = false;
  #overflowed = false;

  /** @param maxEventBytes most bytes of one line, and of the data of one event with the line behind it */
  constructor(sink: SseSink, maxEventBytes: number) {
    this.#sink = sink;
    this.#maxEventBytes = maxEventBytes;
  }

  /** A line or an event was over the limit: from there on nothing is read any more. */
  get overflowed(): boolean {
    return this.#overflowed;
  }

  /** The input so far ends inside an event or a line. */
  get isOpen(): boolean {
    return this.#lineLength > 0 || this.#dataLines > 0;
  }

  /** The input so far ends in an open event whose only data line, ended or not, is exactly `value`. */
  holds(value: Uint8Array): boolean {
    if (this.#dataLines === 1 && this.#lineLength === 0) {
      return matches(this.#data, 0, this.#dataLength, value);
    }
    if (this.#dataLines > 0 || this.#lineLength > value.length + DATA.length + 2) return false;
    const start = dataStart(this.#line, 0, this.#lineLength);
    return start >= 0 && matches(this.#line, start, this.#lineLength, value);
  }

  /** Takes the next bytes, cut anywhere. */
  feed(bytes: Uint8Array): void {
    if (this.#overflowed || bytes.length === 0) return;
    let at = this.#isAfterCr && bytes[0] === LF ? 1 : 0;
    this.#isAfterCr = false;
    let lf = bytes.indexOf(LF, at);
    let cr = bytes.indexOf(CR, at);
    while (lf >= 0 || cr >= 0) {
      const end = cr < 0 || (lf >= 0 && lf < cr) ? lf : cr;
      this.#endLine(bytes, at, end);
      if (this.#overflowed) return;
      at = end + 1;
      if (end === cr) {
        if (at === bytes.length) this.#isAfterCr = true;
        else if (bytes[at] === LF) at++;
        cr = bytes.indexOf(CR, at);
      }
      if (lf >= 0 && lf < at) lf = bytes.indexOf(LF, at);
    }
    this.#keepHeld();
    if (at < bytes.length) this.#keepLine(bytes, at, bytes.length);
  }

  /** The input has ended: what is open counts as it is. */
  finish(): void {
    if (this.#overflowed) return;
    if (this.#lineLength > 0) this.#endLine(EMPTY, 0, 0);
    if (this.#dataLines > 0) this.#dispatch(false);
  }

  /** A line has ended: `bytes[start, end)`, behind whatever of it was kept. */
  #endLine(bytes: Uint8Array, start: number, end: number): void {
    if (this.#lineLength > 0) {
      if (end > start) this.#keepLine(bytes, start, end);
      if (this.#overflowed) return;
      bytes = this.#line;
      start = 0;
      end = this.#lineLength;
      this.#lineLength = 0;
    } else if (this.#isOverLimit(end - start)) {
      return;
    }
    if (this.#isFirstLine) {
      this.#isFirstLine = false;
      if (
        bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf && end - start >= 3
      ) {
        start += 3;
      }
    }
    if (start === end) {
      if (this.#dataLines > 0) this.#dispatch(true);
      return;
    }
    const value = dataStart(bytes, start, end);
    if (value >= 0) this.#addData(bytes, value, end);
    else if (isErrorLine(bytes, start, end)) this.#sink.onErrorLine();
  }

  #addData(bytes: Uint8Array, start: number, end: number): void {
    if (this.#dataLines++ === 0) {
      this.#held = bytes;
      this.#heldStart = start;
      this.#heldEnd = end;
      return;
    }
    this.#keepHeld();
    this.#append(LF_BYTES, 0, 1);
    this.#append(bytes, start, end);
  }

  #dispatch(terminated: boolean): void {
    const held = this.#held;
    this.#held = null;
    this.#dataLines = 0;
    if (held !== null) {
      this.#sink.onEvent(held, this.#heldStart, this.#heldEnd, terminated);
    } else {
      const length = this.#dataLength;
      this.#dataLength = 0;
      this.#sink.onEvent(this.#data, 0, length, terminated);
    }
  }

  /** Copies the held line out of a buffer that is about to be reused. */
  #keepHeld(): void {
    const held = this.#held;
    if (held === null) return;
    this.#held = null;
    if (held === this.#line && this.#dataLength === 0) {
      // A long line was gathered already: it changes hands instead of being there twice.
      this.#line = this.#data;
      this.#data = held.copyWithin(0, this.#heldStart, this.#heldEnd);
      this.#dataLength = this.#heldEnd - this.#heldStart;
    } else {
      this.#append(held, this.#heldStart, this.#heldEnd);
    }
  }

  #append(bytes: Uint8Array, start: number, end: number): void {
    this.#data = withRoom(this.#data, this.#dataLength, end - start, this.#maxEventBytes);
    this.#data.set(bytes.subarray(start, end), this.#dataLength);
    this.#dataLength += end - start;
  }

  #keepLine(bytes: Uint8Array, start: number, end: number): void {
    if (this.#isOverLimit(this.#lineLength + end - start)) return;
    this.#line = withRoom(this.#line, this.#lineLength, end - start, this.#maxEventBytes);
    this.#line.set(bytes.subarray(start, end), this.#lineLength);
    this.#lineLength += end - start;
  }

  /** Gives everything up when a line of `length` bytes is too much, by itself or behind the open event's data. */
  #isOverLimit(length: number): boolean {
    const held = this.#held === null ? 0 : this.#heldEnd - this.#heldStart;
    if (this.#dataLength + held + length <= this.#maxEventBytes) return false;
    this.#overflowed = true;
    this.#held = null;
    this.#line = this.#data = EMPTY;
    this.#lineLength = this.#dataLength = this.#dataLines = 0;
    return true;
  }
}

const LF_BYTES = new Uint8Array([LF]);

/** Where the value of a data line starts, or -1 for any other line. One space behind the colon is not part of it. */
function dataStart(bytes: Uint8Array, start: number, end: number): number {
  const name = fieldEnd(bytes, start, end, DATA);
  if (name < 0) return -1;
  if (name === end) return end;
  return bytes[name + 1] === SPACE && name + 1 < end ? name + 2 : name + 1;
}

function isErrorLine(bytes: Uint8Array, start: number, end: number): boolean {
  if (fieldEnd(bytes, start, end, ERROR) >= 0) return true;
  const name = fieldEnd(bytes, start, end, EVENT);
  if (name < 0 || name === end) return false;
  const value = bytes[name + 1] === SPACE ? name + 2 : name + 1;
  return matches(bytes, value, end, ERROR);
}

/** End of the field name when the line's field is `name`, else -1. */
function fieldEnd(bytes: Uint8Array, start: number, end: number, name: Uint8Array): number {
  const at = start + name.length;
  if (at > end || (at < end && bytes[at] !== COLON)) return -1;
  for (let i = 0; i < name.length; i++) if (bytes[start + i] !== name[i]) return -1;
  return at;
}

function matches(bytes: Uint8Array, start: number, end: number, value: Uint8Array): boolean {
  if (end - start !== value.length) return false;
  for (let i = 0; i < value.length; i++) if (bytes[start + i] !== value[i]) return false;
  return true;
}

/** `buffer`, or a larger one with its first `used` bytes; doubling keeps the copying linear. */
function withRoom(buffer: Uint8Array, used: number, more: number, most: number): Uint8Array {
  if (used + more <= buffer.length) return buffer;
  const grown = new Uint8Array(Math.max(used + more, Math.min(most, Math.max(512, buffer.length * 2))));
  grown.set(buffer.subarray(0, used));
  return grown;
}
