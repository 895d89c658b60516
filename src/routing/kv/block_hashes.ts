/**
 * How a prompt is named block by block, as Dynamo's router and its workers do it.
 *
 * | hash | of |
 * |---|---|
 * | local | the tokens of one full block, as little-endian u32s: xxh3-64, seed 1337 |
 * | sequence | first block: its local hash; then 16 bytes, the parent's sequence hash and the local hash, both u64 LE |
 *
 * A sequence hash names a block together with everything in front of it. An incomplete last block has no name.
 * Hashes are pairs of u32 in a `Uint32Array`: low half at `2 * i`, high half at `2 * i + 1`.
 */
import { createXXHash3 } from "hash-wasm";

const SEED = 1_337;
// Compiling the hash is asynchronous, using it is not: done once, at load.
const hasher = await createXXHash3(SEED, 0);

/** The names of a prompt's blocks. */
export interface BlockHashes {
  /** Full blocks. */
  readonly count: number;
  readonly local: Uint32Array;
  readonly sequence: Uint32Array;
}

/** Hashes the full blocks of `tokens`. Throws `RangeError` when `blockSize` is no whole number of at least 1. */
export function hashBlocks(tokens: Uint32Array, blockSize: number): BlockHashes {
  if (!Number.isInteger(blockSize) || blockSize < 1) {
    throw new RangeError(`Cannot hash blocks of ${blockSize} tokens: whole numbers from 1 are allowed`);
  }
  const count = Math.floor(tokens.length / blockSize);
  const local = new Uint32Array(2 * count);
  const sequence = new Uint32Array(2 * count);
  for (let i = 0; i < count; i++) {
    hashTokens(tokens.subarray(i * blockSize, (i + 1) * blockSize), local, i);
    extendSequence(sequence, i, local);
  }
  return { count, local, sequence };
}

/** Writes the local hash of block `i`, whose tokens are given. */
export function hashTokens(tokens: Uint32Array, local: Uint32Array, i: number): void {
  xxh3(new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength), local, i);
}

const joined = new Uint32Array(4);
const joinedBytes = new Uint8Array(joined.buffer);

/** Writes the sequence hash of block `i`, from that of the block in front of it and its own local hash. */
export function extendSequence(sequence: Uint32Array, i: number, local: Uint32Array): void {
  if (i === 0) {
    sequence[0] = local[0]!;
    sequence[1] = local[1]!;
    return;
  }
  joined[0] = sequence[2 * i - 2]!;
  joined[1] = sequence[2 * i - 1]!;
  joined[2] = local[2 * i]!;
  joined[3] = local[2 * i + 1]!;
  xxh3(joinedBytes, sequence, i);
}

/** Little-endian machines only, as everything that Deno runs on is: u32 arrays are hashed as they lie in memory. */
function xxh3(bytes: Uint8Array, into: Uint32Array, i: number): void {
  hasher.init();
  hasher.update(bytes);
  // The digest is the canonical form, big-endian.
  const digest = hasher.digest("binary");
  into[2 * i] = (digest[4]! << 24) | (digest[5]! << 16) | (digest[6]! << 8) | digest[7]!;
  into[2 * i + 1] = (digest[0]! << 24) | (digest[1]! << 16) | (digest[2]! << 8) | digest[3]!;
}
