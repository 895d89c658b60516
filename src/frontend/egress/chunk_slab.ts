/**
 * Memory in which body chunks are framed: a bump allocator over buffers that are never used twice.
 *
 * A socket may keep a chunk until the client takes it, so nothing is overwritten; a used-up buffer is left to the
 * collector. Buffers are small, as the first chunk that a slow client leaves behind keeps a whole one alive.
 *
 * | in front of the data | data | behind |
 * |---|---|---|
 * | `PREFIX_BYTES`, of which the last 3 to 10 become the size in hex, CR, LF | n bytes | CR, LF; room for the end of the body |
 */
/** Bytes of one buffer. */
export const SLAB_BYTES = 32_768;
/** Room for eight hex digits, CR and LF. */
export const PREFIX_BYTES = 10;
/** Room for CR and LF, and for "0", CR, LF, CR, LF. */
export const SUFFIX_BYTES = 7;

const CR = 13;
const LF = 10;
const HEX = new TextEncoder().encode("0123456789abcdef");

/** Shared by all streams of one frontend. */
export class ChunkSlab {
  /** No `Buffer`: making a view of one costs several times as much, and there is one view per chunk. */
  buffer: Uint8Array<ArrayBuffer> = new Uint8Array(SLAB_BYTES);
  /** End of the last chunk's data; its suffix is still to come. */
  cursor = 0;

  /** Where the data of a new chunk of at least `length` bytes starts, in `buffer`. For at most a quarter of a slab. */
  open(length: number): number {
    let start = this.cursor + SUFFIX_BYTES + PREFIX_BYTES;
    if (start + length + SUFFIX_BYTES > SLAB_BYTES) {
      this.buffer = new Uint8Array(SLAB_BYTES);
      start = PREFIX_BYTES;
    }
    this.cursor = start;
    return start;
  }

  /** Whether the chunk that ends at `end` is the last one and can grow by `length` bytes. */
  canGrow(buffer: Uint8Array, end: number, length: number): boolean {
    return end === this.cursor && buffer === this.buffer && end + length + SUFFIX_BYTES <= SLAB_BYTES;
  }
}

/** Memory for one chunk too large for a slab; the data starts at `headRoom` + {@linkcode PREFIX_BYTES}. */
export function ownChunk(length: number, headRoom = 0): Uint8Array<ArrayBuffer> {
  return new Uint8Array(headRoom + PREFIX_BYTES + length + SUFFIX_BYTES);
}

/** Writes size line and line end around the data in `buffer[start, end)`; returns where the frame starts. */
export function frameChunk(buffer: Uint8Array, start: number, end: number): number {
  buffer[end] = CR;
  buffer[end + 1] = LF;
  buffer[start - 1] = LF;
  buffer[start - 2] = CR;
  let at = start - 2;
  let rest = end - start;
  do {
    buffer[--at] = HEX[rest & 15]!;
    rest >>>= 4;
  } while (rest !== 0);
  return at;
}
