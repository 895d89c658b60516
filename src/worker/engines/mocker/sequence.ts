/** One request inside the simulated GPU: its tokens, the blocks they fill, and how far they have been computed. */
import {
  type BlockHashes,
  extendSequence,
  hashBlocks,
  hashTokens,
} from "../../../routing/kv/block_hashes.ts";
import type { BlockSource } from "./block_manager.ts";

const TWO_TO_32 = 0x1_0000_0000;
/** Bits of a hash's high half that fit a number beside the low half. */
const HIGH_BITS = 0x1f_ffff;

/** See the head of this file. The scheduler alone writes its fields. */
export class Sequence implements BlockSource {
  readonly promptTokens: number;
  readonly blockSize: number;
  /** Tokens in the cache, computed or found there. */
  computed = 0;
  /** Full blocks held, from the first on. */
  heldBlocks = 0;
  /** Whether it holds a block that is being filled. */
  hasPartial = false;
  /** Tokens so far: the prompt's and those made. */
  #length: number;
  #tokens: Uint32Array;
  /** Names of full blocks, computed as they are asked for. */
  #hashes: BlockHashes;

  /** Where the names of its blocks start when they are its own; null when they are shared with equal prompts. */
  readonly #ownNames: number | null;

  /** @param ownNames a multiple of 2^24 above 0 that no other sequence has: its blocks are nobody else's */
  constructor(prompt: Uint32Array, blockSize: number, ownNames: number | null = null) {
    this.promptTokens = prompt.length;
    this.blockSize = blockSize;
    this.#ownNames = ownNames;
    this.#length = prompt.length;
    this.#tokens = prompt;
    this.#hashes = hashBlocks(prompt, blockSize);
  }

  /** The prompt and everything made so far. */
  get length(): number {
    return this.#length;
  }

  /** Tokens that are not in the cache yet. */
  get pending(): number {
    return this.#length - this.computed;
  }

  /** Full blocks of all tokens so far. */
  get fullBlocks(): number {
    return Math.floor(this.#length / this.blockSize);
  }

  /** Adds a token that was made. */
  append(token: number): void {
    if (this.#length === this.#tokens.length) {
      const larger = new Uint32Array(Math.max(64, 2 * this.#length));
      larger.set(this.#tokens);
      this.#tokens = larger;
    }
    this.#tokens[this.#length++] = token;
  }

  /** All but the newest token is computed: what comes next is a decode step. */
  get isDecoding(): boolean {
    return this.computed >= this.promptTokens && this.pending <= 1;
  }

  blockAt(index: number): number {
    if (this.#ownNames !== null) return -this.#ownNames - index;
    if (index >= this.#hashes.count) this.#hashUpTo(index + 1);
    const { sequence } = this.#hashes;
    return (sequence[2 * index + 1]! & HIGH_BITS) * TWO_TO_32 + sequence[2 * index]!;
  }

  /** The local hash of full block `index`: low and high half. */
  localHashAt(index: number): readonly [number, number] {
    if (index >= this.#hashes.count) this.#hashUpTo(index + 1);
    const { local } = this.#hashes;
    return [local[2 * index]!, local[2 * index + 1]!];
  }

  /** Blocks that the generated tokens have filled are hashed one by one. */
  #hashUpTo(count: number): void {
    const { blockSize } = this;
    const room = 2 * Math.max(count, 2 * this.#hashes.count);
    let { local, sequence } = this.#hashes;
    if (local.length < 2 * count) {
      local = grown(local, room);
      sequence = grown(sequence, room);
    }
    for (let i = this.#hashes.count; i < count; i++) {
      hashTokens(this.#tokens.subarray(i * blockSize, (i + 1) * blockSize), local, i);
      extendSequence(sequence, i, local);
    }
    this.#hashes = { count, local, sequence };
  }
}

function grown(from: Uint32Array, length: number): Uint32Array {
  const to = new Uint32Array(length);
  to.set(from);
  return to;
}
