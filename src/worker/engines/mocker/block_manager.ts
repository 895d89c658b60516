/**
 * The KV cache of a simulated GPU: a fixed number of blocks, shared by all requests that have them in common.
 *
 * | a block is | held by | given up |
 * |---|---|---|
 * | active | one or more requests | never |
 * | inactive | nobody, but may be wanted again | the longest unused first, when room is needed |
 * | partial | the one request that is filling it; it has no name yet | with that request |
 *
 * Full blocks are named by a hash of everything up to their end, as a number of 53 bits. Requests give their blocks back
 * last block first, so that of a prompt nobody needs the end goes before the beginning.
 */

/** Told what is in the cache. */
export interface CacheEvents {
  /** A block is new in the cache; it follows `parent`, null for a first one. `index`: which block of its request it is. */
  onStored(parent: number | null, block: number, index: number, source: BlockSource): void;
  onRemoved(block: number): void;
}

/** A request's names for its full blocks. */
export interface BlockSource {
  /** Name of its block `index`, which is full. */
  blockAt(index: number): number;
  /** The local hash of that block (see `routing/kv/block_hashes.ts`): low and high half. */
  localHashAt(index: number): readonly [number, number];
}

/** See the head of this file. */
export class BlockManager {
  readonly capacity: number;
  readonly #events: CacheEvents | null;
  /** Requests that hold a block. */
  readonly #active = new Map<number, number>();
  /** The longest unused is first. */
  readonly #inactive = new Set<number>();
  #partial = 0;
  /** Since the start, for whoever measures the cache. */
  readonly stats = { hits: 0, misses: 0, evictions: 0 };

  constructor(capacity: number, events: CacheEvents | null = null) {
    this.capacity = capacity;
    this.#events = events;
  }

  /** Blocks that requests hold, partial ones included. */
  get active(): number {
    return this.#active.size + this.#partial;
  }

  get inactive(): number {
    return this.#inactive.size;
  }

  /** Blocks that can be had, by evicting all that nobody holds. */
  get available(): number {
    return this.capacity - this.active;
  }

  /** Whether the block is in the cache. */
  has(block: number): boolean {
    return this.#active.has(block) || this.#inactive.has(block);
  }

  /** Whether a request holds the block. */
  isHeld(block: number): boolean {
    return this.#active.has(block);
  }

  /** One request more holds full block `index` of `source`. False, and nothing done, when there is no room. */
  use(source: BlockSource, index: number): boolean {
    const block = source.blockAt(index);
    const holders = this.#active.get(block);
    if (holders !== undefined) {
      this.#active.set(block, holders + 1);
      this.stats.hits++;
      return true;
    }
    if (this.#inactive.delete(block)) {
      this.#active.set(block, 1);
      this.stats.hits++;
      return true;
    }
    if (!this.#makeRoom()) return false;
    this.#active.set(block, 1);
    this.stats.misses++;
    this.#tellStored(source, index);
    return true;
  }

  /** One request begins to fill a block. False when there is no room. */
  usePartial(): boolean {
    if (!this.#makeRoom()) return false;
    this.#partial++;
    return true;
  }

  /** A partial block has become full block `index` of `source`; it may turn out to be one that is there already. */
  promote(source: BlockSource, index: number): void {
    const block = source.blockAt(index);
    this.#partial--;
    const holders = this.#active.get(block);
    this.#active.set(block, (holders ?? 0) + 1);
    if (holders === undefined && !this.#inactive.delete(block)) this.#tellStored(source, index);
  }

  /** One request no longer holds a full block; it stays in the cache until its room is needed. */
  release(block: number): void {
    const holders = this.#active.get(block);
    if (holders === undefined) return;
    if (holders > 1) {
      this.#active.set(block, holders - 1);
      return;
    }
    this.#active.delete(block);
    this.#inactive.add(block);
  }

  /** A request gives up the block it was filling. */
  releasePartial(): void {
    this.#partial--;
  }

  /** Every block that is in the cache and has a name. */
  *blocks(): Iterable<number> {
    yield* this.#active.keys();
    yield* this.#inactive;
  }

  #makeRoom(): boolean {
    if (this.active + this.#inactive.size < this.capacity) return true;
    const oldest = this.#inactive.values().next().value;
    if (oldest === undefined) return false;
    this.#inactive.delete(oldest);
    this.stats.evictions++;
    this.#events?.onRemoved(oldest);
    return true;
  }

  #tellStored(source: BlockSource, index: number): void {
    const parent = index === 0 ? null : source.blockAt(index - 1);
    this.#events?.onStored(parent, source.blockAt(index), index, source);
  }
}
