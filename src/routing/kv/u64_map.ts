/**
 * A map from 64-bit hashes, given as two 32-bit halves, to small integers.
 *
 * Open addressing with linear probing over typed arrays: a look-up allocates nothing and touches one cache line in most
 * cases. (A `Map` with bigint keys costs ten times as much and keeps an object per key.) The keys are hashes already,
 * so their low half is the place to look first; peers choose them, so the table stays at most half full and mixes in a
 * seed of its own: nobody can aim keys at one place.
 */

const MIN_CAPACITY = 16;
/** Marks a place without a key; values are 0 or more. */
const FREE = -1;

/** See the head of this file. */
export class U64Map {
  readonly #seed = crypto.getRandomValues(new Uint32Array(1))[0]! | 1;
  #mask = MIN_CAPACITY - 1;
  #lo = new Uint32Array(MIN_CAPACITY);
  #hi = new Uint32Array(MIN_CAPACITY);
  #values = new Int32Array(MIN_CAPACITY).fill(FREE);
  #size = 0;

  /** Keys in the map. */
  get size(): number {
    return this.#size;
  }

  /** Bytes that the map holds. */
  get bytes(): number {
    return 12 * this.#values.length;
  }

  /** The value of a key, -1 when it has none. */
  get(lo: number, hi: number): number {
    const mask = this.#mask;
    for (let at = this.#home(lo, hi);; at = (at + 1) & mask) {
      const value = this.#values[at]!;
      if (value === FREE || (this.#lo[at] === lo && this.#hi[at] === hi)) return value;
    }
  }

  /** Sets the value (0 to 2^31 - 1) of a key (two unsigned 32-bit halves). */
  set(lo: number, hi: number, value: number): void {
    if (2 * (this.#size + 1) > this.#values.length) this.#resize(2 * this.#values.length);
    const at = this.#find(lo, hi);
    if (this.#values[at] === FREE) this.#size++;
    this.#lo[at] = lo;
    this.#hi[at] = hi;
    this.#values[at] = value;
  }

  /** Takes a key out; returns its value, -1 when it had none. */
  delete(lo: number, hi: number): number {
    const mask = this.#mask;
    let hole = this.#find(lo, hi);
    const removed = this.#values[hole]!;
    if (removed === FREE) return FREE;
    // Keys behind the hole that were pushed past it move up, so that look-ups never need tombstones.
    for (let at = (hole + 1) & mask; this.#values[at] !== FREE; at = (at + 1) & mask) {
      const home = this.#home(this.#lo[at]!, this.#hi[at]!);
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      this.#lo[hole] = this.#lo[at]!;
      this.#hi[hole] = this.#hi[at]!;
      this.#values[hole] = this.#values[at]!;
      hole = at;
    }
    this.#values[hole] = FREE;
    this.#size--;
    if (this.#values.length > MIN_CAPACITY && 8 * this.#size < this.#values.length) {
      this.#resize(this.#values.length / 2);
    }
    return removed;
  }

  /** Takes everything out. */
  clear(): void {
    this.#mask = MIN_CAPACITY - 1;
    this.#lo = new Uint32Array(MIN_CAPACITY);
    this.#hi = new Uint32Array(MIN_CAPACITY);
    this.#values = new Int32Array(MIN_CAPACITY).fill(FREE);
    this.#size = 0;
  }

  #home(lo: number, hi: number): number {
    const mixed = Math.imul(lo ^ hi, this.#seed);
    return (mixed ^ (mixed >>> 15)) & this.#mask;
  }

  #find(lo: number, hi: number): number {
    const mask = this.#mask;
    let at = this.#home(lo, hi);
    while (this.#values[at] !== FREE && (this.#lo[at] !== lo || this.#hi[at] !== hi)) at = (at + 1) & mask;
    return at;
  }

  #resize(capacity: number): void {
    const [lo, hi, values] = [this.#lo, this.#hi, this.#values];
    this.#mask = capacity - 1;
    this.#lo = new Uint32Array(capacity);
    this.#hi = new Uint32Array(capacity);
    this.#values = new Int32Array(capacity).fill(FREE);
    for (let i = 0; i < values.length; i++) {
      if (values[i] === FREE) continue;
      const at = this.#find(lo[i]!, hi[i]!);
      this.#lo[at] = lo[i]!;
      this.#hi[at] = hi[i]!;
      this.#values[at] = values[i]!;
    }
  }
}
