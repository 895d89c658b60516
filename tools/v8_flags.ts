/**
 * How the runtime's garbage collector is set for long-running streams (bench/README.md, "What was tried").
 *
 * A request lives for seconds: of a large young generation most is alive at each collection and has to be copied, in
 * one pause that every stream feels. A small one is collected more often, for about 1 ms. What outlives it costs
 * little until the old generation is full, so that one starts large: with 512 streams of a 20 ms step a full collection,
 * 20 to 30 ms in pieces, comes about once a minute in place of once in ten seconds.
 */

/** Megabytes: the young generation, and the old one's size at which it is first collected in full. */
const YOUNG_MB = 4;
const OLD_MB = 128;

/** The one flag of `deno run` and `deno compile` that carries them. */
export const V8_FLAGS =
  `--v8-flags=--min-semi-space-size=${YOUNG_MB},--max-semi-space-size=${YOUNG_MB},--initial-old-space-size=${OLD_MB}`;
