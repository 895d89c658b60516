import { assert, assertEquals, assertFalse, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DirtySet } from "../../src/mux/dirty_set.ts";

function drained(set: DirtySet): number[] {
  const seen: number[] = [];
  set.drain((index) => seen.push(index));
  return seen;
}

Deno.test("DirtySet tells the mark that is new from the one that is not", () => {
  const set = new DirtySet();
  assert(set.isEmpty);
  for (const index of [0, 31, 32, 63, 64, 65_535]) {
    assert(set.mark(index), `${index}`);
    assertFalse(set.mark(index), `${index} again`);
  }
  assertFalse(set.isEmpty);
  assertEquals(drained(set).toSorted((a, b) => a - b), [0, 31, 32, 63, 64, 65_535]);
  assert(set.isEmpty);
  assertEquals(drained(set), []);
  assert(set.mark(31));
});

Deno.test("DirtySet does what a plain set does, under any schedule", () => {
  const step = fc.oneof({ weight: 8, arbitrary: fc.nat(500) }, {
    weight: 1,
    arbitrary: fc.constant("drain" as const),
  });
  fc.assert(fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
    const set = new DirtySet();
    const plain = new Set<number>();
    for (const what of steps) {
      if (what === "drain") {
        const seen = drained(set);
        assertEquals(seen.toSorted((a, b) => a - b), [...plain].toSorted((a, b) => a - b));
        plain.clear();
      } else {
        assertEquals(set.mark(what), !plain.has(what));
        plain.add(what);
      }
      assertEquals(set.isEmpty, plain.size === 0);
    }
  }));
});

Deno.test("DirtySet visits an index once per drain though its visit marks it again", () => {
  const set = new DirtySet();
  for (const index of [3, 4, 5]) set.mark(index);
  const seen: number[] = [];
  set.drain((index) => {
    seen.push(index);
    assert(seen.length <= 3);
    assert(set.mark(index));
  });
  assertEquals(seen, [3, 4, 5]);
  assertEquals(drained(set), [3, 4, 5]);
});

Deno.test("DirtySet loses no mark that is made during a drain, also when it grows by it", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(200), { minLength: 1, maxLength: 40 }),
      fc.array(fc.nat(5000)),
      (first, more) => {
        const set = new DirtySet();
        for (const index of first) set.mark(index);
        const seen = new Set<number>();
        let at = 0;
        set.drain((index) => {
          seen.add(index);
          const next = more[at++];
          if (next === undefined) return;
          set.mark(next);
          // What was visited before and is marked again has to come once more.
          seen.delete(next);
          if (next === index) seen.delete(index);
        });
        for (const index of drained(set)) seen.add(index);
        assertEquals(seen, new Set([...first, ...more.slice(0, at)]));
        assert(set.isEmpty);
      },
    ),
  );
});

Deno.test("DirtySet keeps what was not visited when a visit throws", () => {
  const indexes = [1, 2, 3, 40, 41, 99, 4_000];
  for (let failing = 0; failing < indexes.length; failing++) {
    const set = new DirtySet();
    for (const index of indexes) set.mark(index);
    const seen: number[] = [];
    assertThrows(
      () =>
        set.drain((index) => {
          if (seen.length === failing) throw new Error("Cannot visit");
          seen.push(index);
          set.mark(500);
        }),
      Error,
      "Cannot visit",
    );
    const rest = drained(set);
    // The failing index itself counts as visited; so may 500, when its turn came.
    const missing = indexes.filter((index) => !seen.includes(index) && !rest.includes(index));
    assertEquals(missing.length, 1, `failing at ${failing}`);
    assert(set.isEmpty && set.mark(99) && set.mark(4_000));
  }
});

Deno.test("DirtySet ignores a drain inside a drain", () => {
  const set = new DirtySet();
  set.mark(1);
  set.mark(70);
  const seen: number[] = [];
  set.drain((index) => {
    seen.push(index);
    set.mark(200);
    set.drain(() => seen.push(-1));
  });
  assertEquals(seen, [1, 70]);
  assertEquals(drained(set), [200]);
});

Deno.test("DirtySet keeps room for every word after it grew during a drain", () => {
  const set = new DirtySet();
  set.mark(0);
  set.drain(() => set.mark(32 * 100));
  const spread = Array.from({ length: 100 }, (_, word) => word * 32);
  assertEquals(drained(set), [3_200]);
  for (let round = 0; round < 3; round++) {
    for (const index of spread) assert(set.mark(index));
    assertEquals(drained(set), spread);
  }
});
