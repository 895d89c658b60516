/** Copying short runs of bytes, as every token is one. */

/** Up to this many bytes a loop beats `set(subarray())`, which has to allocate a view (bench/record_codec_bench.ts). */
const LOOP_COPY_BYTES = 48;

/** Copies `source[start, end)` to `target` at `at`. */
export function copyBytes(
  target: Uint8Array,
  at: number,
  source: Uint8Array,
  start: number,
  end: number,
): void {
  if (end - start <= LOOP_COPY_BYTES) {
    for (let from = start; from < end; from++) target[at++] = source[from]!;
  } else {
    target.set(start === 0 && end === source.length ? source : source.subarray(start, end), at);
  }
}
