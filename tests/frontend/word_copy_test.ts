import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { MAX_SHIFT_BYTES, WordCopy } from "../../src/frontend/word_copy.ts";

const GUARD = 0xee;

Deno.test("WordCopy copies exactly its runs, however buffers and runs lie, and spares what is not next to them", () => {
  const run = fc.record({
    at: fc.nat(40),
    start: fc.nat(300),
    length: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 240, max: 270 })),
    source: fc.nat(2),
  });
  fc.assert(fc.property(fc.nat(7), fc.array(run, { minLength: 1, maxLength: 12 }), (offset, runs) => {
    const copy = new WordCopy();
    // Views that start anywhere in buffers that end anywhere.
    const sources = [601, 602, 620].map((bytes, which) => {
      const all = new Uint8Array(bytes + offset);
      for (let i = 0; i < all.length; i++) all[i] = i * 31 + which;
      return all.subarray(offset);
    });
    for (const { at, start, length, source: which } of runs) {
      const source = sources[which]!;
      const end = Math.min(source.length, start + length);
      const target = new Uint8Array(400).fill(GUARD);
      const to = copy.copy(target, at + 4, source, start, end);
      assert(to >= at + 4 && to <= at + 4 + MAX_SHIFT_BYTES, `it went to ${to}`);
      assertEquals(target.subarray(to, to + end - start), source.subarray(start, end));
      for (let i = 0; i < target.length; i++) {
        if (i < to - 3 || i >= to + end - start + 3) assertEquals(target[i], GUARD, `byte ${i}`);
      }
    }
  }));
});

Deno.test("WordCopy copies the last bytes of a buffer that does not end with a word", () => {
  const source = Uint8Array.from({ length: 103 }, (_, i) => i);
  const target = new Uint8Array(128);
  const copy = new WordCopy();
  for (let time = 0; time < 3; time++) {
    const to = copy.copy(target, 8, source, 3, 103);
    assertEquals(target.subarray(to, to + 100), source.subarray(3));
  }
});
