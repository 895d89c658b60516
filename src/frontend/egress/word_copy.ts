/**
 * Copying many short runs out of one buffer, word by word: faster than `set(subarray())` up to about 200 bytes
 * (bench/word_copy_bench.ts), and it leaves no view to the collector, where every token would leave one.
 *
 * Words are copied whole, so up to three bytes in front of the run and behind it are written too.
 */
import { copyBytes } from "../../bytes.ts";

/** A run may be put so many bytes behind where it was asked for: source and target have to lie alike within a word. */
export const MAX_SHIFT_BYTES = 3;
/** Up to this many; above, the built-in copy is faster by more than its view costs. */
const MAX_WORD_COPY_BYTES = 256;
const NO_WORDS = new Int32Array(0);

/**
 * Remembers source and target, and keeps the last ones alive: a view of their words is made once per buffer, not once
 * per run.
 */
export class WordCopy {
  #source: Uint8Array | null = null;
  #sourceOffset = 0;
  /** Empty until the source has come twice: one that brings a single run is not worth a view. */
  #sourceWords = NO_WORDS;
  #target: Uint8Array | null = null;
  #targetWords = NO_WORDS;

  /**
   * Copies `source[start, end)` to `target`, at `at` or up to {@linkcode MAX_SHIFT_BYTES} behind, and returns where.
   *
   * @param target must begin at byte 0 of its `ArrayBuffer`
   */
  copy(target: Uint8Array<ArrayBuffer>, at: number, source: Uint8Array, start: number, end: number): number {
    if (source !== this.#source) {
      this.#source = source;
      this.#sourceWords = NO_WORDS;
    } else if (end - start <= MAX_WORD_COPY_BYTES) {
      if (this.#sourceWords === NO_WORDS) this.#lookAtSource(source);
      if (target !== this.#target) this.#lookAtTarget(target);
      const from = this.#sourceOffset + start;
      const to = at + ((from - at) & 3);
      if (this.#copyWords(to >> 2, from >> 2, (from + end - start + 3) >> 2)) return to;
    }
    copyBytes(target, at, source, start, end);
    return at;
  }

  /** False, and nothing done, where the last word is not whole. */
  #copyWords(to: number, from: number, end: number): boolean {
    const source = this.#sourceWords;
    const target = this.#targetWords;
    if (end > source.length || to + end - from > target.length) return false;
    while (from + 4 <= end) {
      target[to] = source[from]!;
      target[to + 1] = source[from + 1]!;
      target[to + 2] = source[from + 2]!;
      target[to + 3] = source[from + 3]!;
      to += 4;
      from += 4;
    }
    while (from < end) target[to++] = source[from++]!;
    return true;
  }

  #lookAtSource(source: Uint8Array): void {
    const { buffer, byteOffset } = source;
    this.#sourceOffset = byteOffset;
    this.#sourceWords = new Int32Array(buffer as ArrayBuffer, 0, buffer.byteLength >> 2);
  }

  #lookAtTarget(target: Uint8Array<ArrayBuffer>): void {
    this.#target = target;
    this.#targetWords = new Int32Array(target.buffer, 0, target.length >> 2);
  }
}
