/** The last bytes that a client was sent: enough to tell whether an event is open and whether `[DONE]` was said. */

const TAIL_BYTES = 24;
const CR = 13;
const LF = 10;
const DONE = new TextEncoder().encode("[DONE]");
const DATA = new TextEncoder().encode("data:");
/** The last byte of `[DONE]`. */
const BRACKET = 0x5d;

/** A rolling tail of one stream. */
export class EventTail {
  /** Made for the first chunk that does not end an ordinary event. */
  #bytes: Uint8Array | null = null;
  #length = 0;
  /** The last chunk ended an ordinary event; `#bytes` and `#length` are out of date. */
  #endedOrdinary = false;

  /** As `Flushable.prefetch`. */
  prefetch(): number {
    return this.#endedOrdinary ? 1 : 0;
  }

  /** Takes in `buffer[start, end)`, which has just been written. */
  push(buffer: Uint8Array, start: number, end: number): void {
    // Nearly every chunk: of a stream that goes on one flag is written, and no memory of its own touched.
    if (endsOrdinaryEvent(buffer, start, end)) this.#endedOrdinary = true;
    else this.#keep(buffer, start, end);
  }

  /** Whether the next byte starts a new event: the bytes end in a blank line, by LF, CR or CR LF, or there are none. */
  get isAtBoundary(): boolean {
    if (this.#endedOrdinary || this.#length === 0) return true;
    const end = this.#beforeLineEnd(this.#length);
    return end < this.#length && (end === 0 || this.#isLineEnd(end - 1));
  }

  /** Whether the last line with anything in it is `data: [DONE]`. */
  get isDone(): boolean {
    if (this.#endedOrdinary) return false;
    let end = this.#length;
    while (end > 0 && this.#isLineEnd(end - 1)) end--;
    let start = end - DONE.length;
    if (!this.#has(DONE, start)) return false;
    if (start > 0 && this.#at(start - 1) === 0x20) start--;
    start -= DATA.length;
    return this.#has(DATA, start) && (start === 0 || this.#isLineEnd(start - 1));
  }

  #keep(buffer: Uint8Array, start: number, end: number): void {
    const bytes = this.#bytes ??= new Uint8Array(TAIL_BYTES);
    if (this.#endedOrdinary) {
      this.#endedOrdinary = false;
      this.#length = 0; // what follows starts an event, as at the start of the stream
    }
    const count = end - start;
    if (count >= TAIL_BYTES) {
      this.#length = TAIL_BYTES;
      for (let i = 0, at = end - TAIL_BYTES; i < TAIL_BYTES; i++, at++) bytes[i] = buffer[at]!;
      return;
    }
    const kept = Math.min(this.#length, TAIL_BYTES - count);
    bytes.copyWithin(0, this.#length - kept, this.#length);
    for (let i = 0; i < count; i++) bytes[kept + i] = buffer[start + i]!;
    this.#length = kept + count;
  }

  #beforeLineEnd(end: number): number {
    if (!this.#isLineEnd(end - 1)) return end;
    const isCrLf = this.#at(end - 1) === LF && end > 1 && this.#at(end - 2) === CR;
    return isCrLf ? end - 2 : end - 1;
  }

  #isLineEnd(at: number): boolean {
    return this.#at(at) === LF || this.#at(at) === CR;
  }

  #has(text: Uint8Array, start: number): boolean {
    if (start < 0) return false;
    for (let i = 0; i < text.length; i++) if (this.#at(start + i) !== text[i]) return false;
    return true;
  }

  #at(index: number): number | undefined {
    return this.#bytes?.[index];
  }
}

/** Whether the bytes end in LF LF, with an event before them that cannot be the last one. */
function endsOrdinaryEvent(buffer: Uint8Array, start: number, end: number): boolean {
  if (end - start < 3 || buffer[end - 1] !== LF || buffer[end - 2] !== LF) return false;
  const before = buffer[end - 3];
  return before !== BRACKET && before !== LF && before !== CR;
}
