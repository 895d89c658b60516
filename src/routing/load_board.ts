/**
 * How busy each worker is, as all shards of a frontend together know it: counters in memory that they share.
 *
 * A shard writes its own column alone and reads all of them, so that nothing is sent per request and no count is lost or
 * doubled. A worker has one row for as long as any shard knows it. Rows are given out and up under a lock, which happens
 * when workers come and go; counting takes none.
 *
 * | words | |
 * |---|---|
 * | 0 | the lock |
 * | 1 + row * (2 + shards * 4) | worker id, low and high half |
 * | … + 2 + shard * 4 | present (0 or 1), requests, prefill blocks, decode blocks |
 */

/** What is counted. */
export const Load = Object.freeze({ requests: 1, prefillBlocks: 2, decodeBlocks: 3 });
/** One of {@linkcode Load}. */
export type Load = (typeof Load)[keyof typeof Load];

const PRESENT = 0;
const COLUMN_WORDS = 4;
const ID_WORDS = 2;
/** A shard that was cut off may hold the lock; it is held for microseconds, so after this it is taken over. */
const LOCK_PATIENCE_MS = 100;

/** See the head of this file. */
export class LoadBoard {
  readonly #words: Int32Array;
  readonly #shards: number;
  readonly #shard: number;
  readonly #rowWords: number;
  readonly #rows: number;

  /** Memory for a process: rows for `workers`, columns for `shards`. Every shard gets the same. */
  static allocate(workers: number, shards: number): SharedArrayBuffer {
    return new SharedArrayBuffer(4 * (1 + workers * (ID_WORDS + shards * COLUMN_WORDS)));
  }

  /** @param shard the column that this one writes; whatever stands there is of a predecessor that died, and is cleared */
  constructor(memory: SharedArrayBuffer, shards: number, shard: number) {
    this.#words = new Int32Array(memory);
    this.#shards = shards;
    this.#shard = shard;
    this.#rowWords = ID_WORDS + shards * COLUMN_WORDS;
    this.#rows = Math.floor((this.#words.length - 1) / this.#rowWords);
    for (let row = 0; row < this.#rows; row++) this.#clear(row);
  }

  /** The row of a worker, which this shard keeps until `leave`; -1 when there is none left. */
  enter(workerId: bigint): number {
    const lo = Number(BigInt.asIntN(32, workerId));
    const hi = Number(BigInt.asIntN(32, workerId >> 32n));
    return this.#locked(() => {
      let free = -1;
      for (let row = 0; row < this.#rows; row++) {
        const at = this.#rowAt(row);
        if (!this.#isTaken(row)) {
          if (free < 0) free = row;
        } else if (this.#words[at] === lo && this.#words[at + 1] === hi) {
          return this.#take(row);
        }
      }
      if (free < 0) return -1;
      this.#words[this.#rowAt(free)] = lo;
      this.#words[this.#rowAt(free) + 1] = hi;
      return this.#take(free);
    });
  }

  /** This shard no longer knows the worker of a row; what it counted for it is gone. */
  leave(row: number): void {
    if (row >= 0) this.#locked(() => this.#clear(row));
  }

  /** Counts for the worker of a row; a row of -1 counts nothing. */
  add(row: number, load: Load, delta: number): void {
    if (row < 0) return;
    const at = this.#columnAt(row, this.#shard) + load;
    // Nobody else writes here, but others read: a plain store would do on every machine there is, this does by rule.
    Atomics.store(this.#words, at, this.#words[at]! + delta);
  }

  /** What all shards together count for the worker of a row. */
  total(row: number, load: Load): number {
    if (row < 0) return 0;
    let sum = 0;
    for (let shard = 0; shard < this.#shards; shard++) {
      sum += Atomics.load(this.#words, this.#columnAt(row, shard) + load);
    }
    return sum;
  }

  #rowAt(row: number): number {
    return 1 + row * this.#rowWords;
  }

  #columnAt(row: number, shard: number): number {
    return this.#rowAt(row) + ID_WORDS + shard * COLUMN_WORDS;
  }

  #take(row: number): number {
    Atomics.store(this.#words, this.#columnAt(row, this.#shard) + PRESENT, 1);
    return row;
  }

  #isTaken(row: number): boolean {
    for (let shard = 0; shard < this.#shards; shard++) {
      if (Atomics.load(this.#words, this.#columnAt(row, shard) + PRESENT) !== 0) return true;
    }
    return false;
  }

  #clear(row: number): void {
    const at = this.#columnAt(row, this.#shard);
    for (let i = 0; i < COLUMN_WORDS; i++) Atomics.store(this.#words, at + i, 0);
  }

  #locked<T>(work: () => T): T {
    const giveUpAt = performance.now() + LOCK_PATIENCE_MS;
    while (Atomics.compareExchange(this.#words, 0, 0, 1) !== 0) {
      if (performance.now() > giveUpAt) break;
    }
    try {
      return work();
    } finally {
      Atomics.store(this.#words, 0, 0);
    }
  }
}
