/**
 * A body that is kept until all of it is there: a request's until it can be read, an answer's until its end is known to
 * be good. It lies in one buffer that doubles, so that what it costs follows its bytes, not the pieces they came in.
 */

const FIRST_BYTES = 512;

/** Copies of the pieces of one body, up to a bound. */
export class GatheredBody {
  readonly #limit: number;
  #buffer: Uint8Array<ArrayBuffer> = new Uint8Array(0);
  length = 0;

  /** @param limit most bytes */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Keeps a copy of `bytes[start, end)`; false, and nothing is kept, when that would pass the bound. */
  push(bytes: Uint8Array, start: number, end: number): boolean {
    const length = this.length + end - start;
    if (length > this.#limit) return false;
    if (length > this.#buffer.length) this.#grow(length);
    this.#buffer.set(bytes.subarray(start, end), this.length);
    this.length = length;
    return true;
  }

  /** The whole body; a view that the next `push` may make stale. */
  join(): Uint8Array<ArrayBuffer> {
    return this.#buffer.subarray(0, this.length);
  }

  #grow(length: number): void {
    const doubled = Math.max(FIRST_BYTES, 2 * this.#buffer.length);
    const grown = new Uint8Array(Math.max(length, Math.min(doubled, this.#limit)));
    grown.set(this.#buffer.subarray(0, this.length));
    this.#buffer = grown;
  }
}
