/**
 * Memory in which body chunks are framed: a bump allocator over small buffers.
 *
 * Where a socket may keep a chunk until its client takes it, nothing is ever overwritten, and a used-up buffer is left
 * to the collector. Where every chunk has been handed to the kernel or copied when a flush is over, `rewind` starts
 * again at the first buffer: memory that is warm, and costs neither an allocation nor a collection.
 *
 * | in front of the data | data | behind |
 * |---|---|---|
 * | `PREFIX_BYTES`, of which the last 3 to 10 become the size in hex, CR, LF | n bytes | CR, LF; room for the end of the body |
 */
import { copyBytes } from "../../bytes.ts";
import { MAX_SHIFT_BYTES, WordCopy } from "./word_copy.ts";

/** Longest data that a chunk is opened with: head, frame and shift come on top, and it may grow to the end of its buffer. */
export const MAX_SLAB_CHUNK_BYTES = 8_192;
/** Bytes of a buffer that is used once. Small, as one chunk that a slow client leaves behind keeps all of it alive. */
const ONCE_BYTES = 32_768;
/** Bytes of a buffer that is used again and again: what 1,300 streams fill with a token each. */
const REUSED_BYTES = 262_144;
/** Buffers that are kept for use after `rewind`. More are left to the collector. */
const MAX_KEPT_BUFFERS = 4;
/** Room for eight hex digits, CR and LF. */
export const PREFIX_BYTES = 10;
/** Room for CR and LF, and for "0", CR, LF, CR, LF. */
const SUFFIX_BYTES = 7;

const CR = 13;
const LF = 10;
const HEX = new TextEncoder().encode("0123456789abcdef");

/** Shared by all streams of one frontend. */
export class ChunkSlab {
  /** No `Buffer`: making a view of one costs several times as much, and there is one view per chunk. */
  buffer!: Uint8Array<ArrayBuffer>;
  /** End of the last chunk's data; its suffix is still to come. */
  cursor = 0;
  readonly #words: WordCopy = new WordCopy();
  readonly #bufferBytes: number;
  readonly #maxKept: number;
  /** Those that `rewind` starts again with. The first `#used` are in use, in this order. */
  #kept: Uint8Array<ArrayBuffer>[] = [];
  #used = 0;

  /** @param isReused whether `rewind` will be called */
  constructor(isReused = false) {
    this.#bufferBytes = isReused ? REUSED_BYTES : ONCE_BYTES;
    this.#maxKept = isReused ? MAX_KEPT_BUFFERS : 0;
    this.renew();
  }

  /** Where the data of a new chunk of at least `length` bytes starts, in `buffer`, which must be able to hold it. */
  open(length: number): number {
    let start = this.cursor + SUFFIX_BYTES + PREFIX_BYTES;
    if (start + length + SUFFIX_BYTES > this.#bufferBytes) {
      this.buffer = this.#next();
      start = PREFIX_BYTES;
    }
    this.cursor = start;
    return start;
  }

  /** Opens a chunk with `source[start, end)` in it, behind `room` bytes for the head; returns where the data starts. */
  openWith(source: Uint8Array, start: number, end: number, room: number): number {
    const length = end - start;
    const free = this.open(room + length + MAX_SHIFT_BYTES) + room;
    const at = this.#words.copy(this.buffer, free, source, start, end);
    this.cursor = at + length;
    return at;
  }

  /** Moves the chunk `from[fromStart, fromEnd)`, that others were opened behind, and adds to it; as `openWith`. */
  moveWith(
    from: Uint8Array,
    fromStart: number,
    fromEnd: number,
    source: Uint8Array,
    start: number,
    end: number,
    room: number,
  ): number {
    const moved = fromEnd - fromStart;
    const at = this.open(room + moved + end - start) + room;
    copyBytes(this.buffer, at, from, fromStart, fromEnd);
    copyBytes(this.buffer, at + moved, source, start, end);
    this.cursor = at + moved + end - start;
    return at;
  }

  /** Uses the same memory again. Nobody may still hold a chunk, and none may be open. */
  rewind(): void {
    this.#used = 0;
    this.buffer = this.#next();
    this.cursor = 0;
  }

  /** Leaves all memory to those who may still hold a chunk of it. */
  renew(): void {
    this.#kept = [];
    this.rewind();
  }

  /** Whether the chunk that ends at `end` is the last one and can grow by `length` bytes. */
  canGrow(buffer: Uint8Array, end: number, length: number): boolean {
    return end === this.cursor && buffer === this.buffer && end + length + SUFFIX_BYTES <= this.#bufferBytes;
  }

  #next(): Uint8Array<ArrayBuffer> {
    const waiting = this.#kept[this.#used];
    if (waiting !== undefined) {
      this.#used++;
      return waiting;
    }
    const buffer = new Uint8Array(this.#bufferBytes);
    if (this.#used < this.#maxKept) this.#used = this.#kept.push(buffer);
    return buffer;
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
