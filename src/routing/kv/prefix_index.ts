/**
 * Which worker has which blocks of which prompts in its cache.
 *
 * A block is known by its sequence hash, which names all blocks in front of it too: so the radix tree needs no edges,
 * and walking down a prompt is one look-up per block. Each block holds the set of workers that have it, a bit for each;
 * a worker that has a block is taken to have those in front of it only as far as it has said so.
 *
 * Memory is bounded by `maxBlocks` and by what the workers hold: a block that nobody has any more is given up.
 */
import { U64Map } from "./u64_map.ts";

/** Bounds of a {@linkcode PrefixIndex}. */
export interface PrefixIndexLimits {
  /** Different blocks; more are not taken in. */
  readonly maxBlocks: number;
  /** Workers at one time. */
  readonly maxWorkers: number;
}

const INITIAL_BLOCKS = 1_024;

/** See the head of this file. A worker is known by a small number that {@linkcode PrefixIndex.addWorker} gives out. */
export class PrefixIndex {
  readonly #limits: PrefixIndexLimits;
  /** Sequence hash to block number. */
  readonly #blocks = new U64Map();
  /** Per block: its hash, how many workers have it, and which (`#words` words of 32 bits each). */
  #lo = new Uint32Array(INITIAL_BLOCKS);
  #hi = new Uint32Array(INITIAL_BLOCKS);
  #holders = new Uint32Array(INITIAL_BLOCKS);
  #words = 1;
  #sets = new Uint32Array(INITIAL_BLOCKS);
  #freeBlocks: number[] = [];
  /** Block numbers given out so far, those that are free again included. */
  #usedBlocks = 0;
  readonly #freeWorkers: number[] = [];
  #usedWorkers = 0;
  /** Blocks of each worker; -1: no such worker. */
  readonly #held: number[] = [];
  /** Workers that still match, word by word; reused from prompt to prompt. */
  #active = new Uint32Array(1);
  /** Blocks that were not taken in because the index was full. */
  refused = 0;

  constructor(limits: PrefixIndexLimits) {
    this.#limits = limits;
  }

  /** Different blocks that some worker has. */
  get blocks(): number {
    return this.#blocks.size;
  }

  /** Bytes held for blocks. */
  get bytes(): number {
    return this.#blocks.bytes + 4 * (3 + this.#words) * this.#lo.length;
  }

  /** Workers it knows now. */
  get workers(): number {
    return this.#usedWorkers - this.#freeWorkers.length;
  }

  /** Numbers of workers given out are below this. */
  get numbers(): number {
    return this.#usedWorkers;
  }

  /** Makes room for a worker; its number, or -1 when there are as many as it takes. */
  addWorker(): number {
    const worker = this.#freeWorkers.pop() ?? this.#usedWorkers;
    if (worker >= this.#limits.maxWorkers) return -1;
    if (worker === this.#usedWorkers) this.#usedWorkers++;
    if (worker >= 32 * this.#words) this.#widen();
    this.#held[worker] = 0;
    return worker;
  }

  /** Forgets a worker and gives up the blocks that only it had. */
  removeWorker(worker: number): void {
    if (!this.#isWorker(worker)) return;
    this.clear(worker);
    this.#held[worker] = -1;
    this.#freeWorkers.push(worker);
  }

  /** Blocks that a worker has; 0 for one that is not known. */
  heldBy(worker: number): number {
    return Math.max(0, this.#held[worker] ?? 0);
  }

  /** A worker has a block. False when the index is full, or the worker unknown. */
  store(worker: number, lo: number, hi: number): boolean {
    if (!this.#isWorker(worker)) return false;
    let block = this.#blocks.get(lo, hi);
    if (block < 0) {
      if (this.#blocks.size >= this.#limits.maxBlocks) {
        this.refused++;
        return false;
      }
      block = this.#newBlock(lo, hi);
    }
    const at = block * this.#words + (worker >>> 5);
    const bit = 1 << (worker & 31);
    if ((this.#sets[at]! & bit) !== 0) return true;
    this.#sets[at]! |= bit;
    this.#holders[block]!++;
    this.#held[worker]!++;
    return true;
  }

  /** A worker no longer has a block. False when it had not. */
  remove(worker: number, lo: number, hi: number): boolean {
    const block = this.#blocks.get(lo, hi);
    return block >= 0 && this.#isWorker(worker) && this.#drop(worker, block);
  }

  /** A worker has no block any more. */
  clear(worker: number): void {
    if (!this.#isWorker(worker)) return;
    for (let block = 0; block < this.#usedBlocks && this.#held[worker]! > 0; block++) {
      if (this.#holders[block]! > 0) this.#drop(worker, block);
    }
  }

  /**
   * How many blocks of a prompt, from its first on, each worker has: written to `depths[worker]`, for all numbers below
   * `depths.length`. `sequence` holds pairs of u32 as in `block_hashes.ts`.
   */
  match(sequence: Uint32Array, count: number, depths: Uint32Array): void {
    depths.fill(0);
    const words = this.#words;
    const active = this.#active;
    active.fill(0xffff_ffff);
    for (let i = 0; i < count; i++) {
      const block = this.#blocks.get(sequence[2 * i]!, sequence[2 * i + 1]!);
      if (block < 0) return this.#reached(i, depths);
      let left = 0;
      for (let word = 0; word < words; word++) {
        const before = active[word]!;
        if (before === 0) continue;
        const after = before & this.#sets[block * words + word]!;
        // The first block drops those that have nothing: their depth is 0 already.
        if (after !== before && i > 0) writeDepths(before & ~after, word, i, depths);
        active[word] = after;
        left |= after;
      }
      if (left === 0) return;
    }
    this.#reached(count, depths);
  }

  #reached(depth: number, depths: Uint32Array): void {
    if (depth === 0) return;
    for (let word = 0; word < this.#words; word++) writeDepths(this.#active[word]!, word, depth, depths);
  }

  #isWorker(worker: number): boolean {
    return (this.#held[worker] ?? -1) >= 0;
  }

  #drop(worker: number, block: number): boolean {
    const at = block * this.#words + (worker >>> 5);
    const bit = 1 << (worker & 31);
    if ((this.#sets[at]! & bit) === 0) return false;
    this.#sets[at]! &= ~bit;
    this.#held[worker]!--;
    if (--this.#holders[block]! === 0) {
      this.#blocks.delete(this.#lo[block]!, this.#hi[block]!);
      this.#freeBlocks.push(block);
    }
    return true;
  }

  #newBlock(lo: number, hi: number): number {
    const block = this.#freeBlocks.pop() ?? this.#usedBlocks++;
    if (block >= this.#lo.length) this.#grow();
    this.#lo[block] = lo;
    this.#hi[block] = hi;
    this.#blocks.set(lo, hi, block);
    return block;
  }

  #grow(): void {
    const length = 2 * this.#lo.length;
    this.#lo = copied(this.#lo, length);
    this.#hi = copied(this.#hi, length);
    this.#holders = copied(this.#holders, length);
    this.#sets = copied(this.#sets, length * this.#words);
  }

  /** One more word per block. */
  #widen(): void {
    const words = this.#words + 1;
    const sets = new Uint32Array(this.#lo.length * words);
    for (let block = 0; block < this.#usedBlocks; block++) {
      for (let word = 0; word < this.#words; word++) {
        sets[block * words + word] = this.#sets[block * this.#words + word]!;
      }
    }
    this.#words = words;
    this.#sets = sets;
    this.#active = new Uint32Array(words);
  }
}

/** Writes a depth for every worker whose bit is set in `bits`. */
function writeDepths(bits: number, word: number, depth: number, depths: Uint32Array): void {
  for (let left = bits; left !== 0; left &= left - 1) {
    const worker = 32 * word + (31 - Math.clz32(left & -left));
    if (worker < depths.length) depths[worker] = depth;
  }
}

function copied(from: Uint32Array, length: number): Uint32Array<ArrayBuffer> {
  const to = new Uint32Array(length);
  to.set(from);
  return to;
}
