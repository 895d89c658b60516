/** A body that is sent whole: kept until its end is known to be good. */

/** Copies of the items of one body, up to a bound. */
export class GatheredBody {
  readonly chunks: Uint8Array[] = [];
  readonly #limit: number;
  length = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Keeps a copy of `bytes[start, end)`; false, and nothing is kept, when that would pass the bound. */
  push(bytes: Uint8Array, start: number, end: number): boolean {
    if (this.length + end - start > this.#limit) return false;
    this.chunks.push(Uint8Array.prototype.slice.call(bytes, start, end));
    this.length += end - start;
    return true;
  }

  /** The whole body. */
  join(): Uint8Array {
    if (this.chunks.length === 1) return this.chunks[0]!;
    const body = new Uint8Array(this.length);
    let at = 0;
    for (const chunk of this.chunks) {
      body.set(chunk, at);
      at += chunk.length;
    }
    return body;
  }
}
