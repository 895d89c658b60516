import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { MAX_SHIFT_BYTES, WordCopy } from "../../src/frontend/egress/word_copy.ts";

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

Deno.test("WordCopy copies by words from the second run of a source on, where the words are whole", () => {
  const source = Uint8Array.from({ length: 103 }, (_, i) => i);
  const other = new Uint8Array(64);
  const copy = new WordCopy();
  const where = (target: Uint8Array<ArrayBuffer>, from: Uint8Array, start: number, end: number) => {
    const to = copy.copy(target, 8, from, start, end);
    assertEquals(target.subarray(to, to + end - start), from.subarray(start, end));
    return to - 8;
  };
  const target = new Uint8Array(128);
  assertEquals([0, 1, 2, 3, 4].map((start) => where(target, source, start, 50)), [0, 1, 2, 3, 0]);
  // Another source starts anew; so does the first one behind it.
  assertEquals([where(target, other, 1, 50), where(target, other, 1, 50)], [0, 1]);
  assertEquals([where(target, source, 1, 50), where(target, source, 1, 50)], [0, 1]);
  // The source's last word is not whole, then the target's, then the run is long.
  assertEquals(where(target, source, 1, 102), 0);
  assertEquals(where(new Uint8Array(58), source, 1, 50), 0);
  const long = new Uint8Array(600).fill(1);
  assertEquals([1, 1].map(() => where(new Uint8Array(600), long, 1, 300)), [0, 0]);
});
