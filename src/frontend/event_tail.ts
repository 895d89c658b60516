/** The last bytes that a client was sent: enough to tell whether an event is open and whether `[DONE]` was said. */

const TAIL_BYTES = 24;
const CR = 13;
const LF = 10;
const DONE = new TextEncoder().encode("[DONE]");
const DATA = new TextEncoder().encode("data:");

/** A rolling tail of one stream. */
export class EventTail {
  readonly #bytes = new Uint8Array(TAIL_BYTES);
  #length = 0;

  /** Takes in `buffer[start, end)`, which has just been written. */
  push(buffer: Uint8Array, start: number, end: number): void {
    const bytes = this.#bytes;
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

  /** Whether the next byte starts a new event: the bytes end in a blank line, by LF, CR or CR LF, or there are none. */
  get isAtBoundary(): boolean {
    if (this.#length === 0) return true;
    const end = this.#beforeLineEnd(this.#length);
    return end < this.#length && (end === 0 || this.#isLineEnd(end - 1));
  }

  /** Whether the last line with anything in it is `data: [DONE]`. */
  get isDone(): boolean {
    let end = this.#length;
    while (end > 0 && this.#isLineEnd(end - 1)) end--;
    let start = end - DONE.length;
    if (!this.#has(DONE, start)) return false;
    if (start > 0 && this.#bytes[start - 1] === 0x20) start--;
    start -= DATA.length;
    return this.#has(DATA, start) && (start === 0 || this.#isLineEnd(start - 1));
  }

  #beforeLineEnd(end: number): number {
    if (!this.#isLineEnd(end - 1)) return end;
    const isCrLf = this.#bytes[end - 1] === LF && end > 1 && this.#bytes[end - 2] === CR;
    return isCrLf ? end - 2 : end - 1;
  }

  #isLineEnd(at: number): boolean {
    return this.#bytes[at] === LF || this.#bytes[at] === CR;
  }

  #has(text: Uint8Array, start: number): boolean {
    if (start < 0) return false;
    for (let i = 0; i < text.length; i++) if (this.#bytes[start + i] !== text[i]) return false;
    return true;
  }
}
