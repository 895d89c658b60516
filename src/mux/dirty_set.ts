/**
 * The slots of one peer that were drained since the last visit, as a bitmap.
 *
 * Beside the bitmap stands a list of the words that are not zero, so a visit costs by dirty slots, never by live ones.
 */

/** A set of small integers that is filled one by one and emptied all at once. */
export class DirtySet {
  #words = new Uint32Array(2);
  // Words that are not zero, each once. Two lists, so that marks made during a drain do not disturb it.
  #listed = new Uint32Array(2);
  #spare = new Uint32Array(2);
  #listedCount = 0;
  #draining = false;

  /** Whether nothing is marked. */
  get isEmpty(): boolean {
    return this.#listedCount === 0;
  }

  /** Marks an index; true when it was not marked. The set grows to hold it. */
  mark(index: number): boolean {
    const word = index >>> 5;
    if (word >= this.#words.length) this.#grow(word + 1);
    const before = this.#words[word]!;
    const after = before | (1 << (index & 31));
    if (before === after >>> 0) return false;
    this.#words[word] = after;
    if (before === 0) this.#listed[this.#listedCount++] = word;
    return true;
  }

  /**
   * Unmarks every index and calls `visit` with each. What `visit` marks is visited now or stays for the next drain
   * (an index that is marked in its own visit stays); nothing is lost when `visit` throws. A drain inside a drain
   * does nothing.
   */
  drain(visit: (index: number) => void): void {
    if (this.#listedCount === 0 || this.#draining) return;
    const listed = this.#listed;
    const count = this.#listedCount;
    this.#listed = this.#spare;
    this.#listedCount = 0;
    this.#draining = true;
    let at = 0;
    let word = 0;
    let bits = 0;
    try {
      while (at < count) {
        word = listed[at++]!;
        bits = this.#words[word]!;
        this.#words[word] = 0;
        while (bits !== 0) {
          const bit = 31 - Math.clz32(bits & -bits);
          bits &= ~(1 << bit);
          visit((word << 5) | bit);
        }
      }
    } finally {
      this.#draining = false;
      this.#spare = listed.length < this.#words.length ? new Uint32Array(this.#words.length) : listed;
      // Only after a throw is anything left here.
      if (bits !== 0) this.#restore(word, bits);
      while (at < count) this.#listed[this.#listedCount++] = listed[at++]!;
    }
  }

  #restore(word: number, bits: number): void {
    const before = this.#words[word]!;
    this.#words[word] = before | bits;
    if (before === 0) this.#listed[this.#listedCount++] = word;
  }

  #grow(needed: number): void {
    let size = this.#words.length;
    while (size < needed) size *= 2;
    this.#words = enlarged(this.#words, size);
    this.#listed = enlarged(this.#listed, size);
    // During a drain the spare list is the one in use; the drain replaces the other when it ends.
    if (!this.#draining) this.#spare = new Uint32Array(size);
  }
}

function enlarged(from: Uint32Array<ArrayBuffer>, size: number): Uint32Array<ArrayBuffer> {
  const grown = new Uint32Array(size);
  grown.set(from);
  return grown;
}
