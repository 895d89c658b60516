import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { U64Map } from "../../../src/routing/kv/u64_map.ts";

Deno.test("U64Map agrees with a Map, whatever is set and deleted", () => {
  // Few keys, of which many share a half: they collide and are deleted often.
  const key = fc.record({ lo: fc.constantFrom(0, 1, 2, 0xffff_ffff), hi: fc.nat(20) });
  const step = fc.record({ key, value: fc.option(fc.nat()) });
  fc.assert(fc.property(fc.array(step, { maxLength: 400 }), (steps) => {
    const map = new U64Map();
    const model = new Map<string, number>();
    for (const { key: { lo, hi }, value } of steps) {
      const name = `${lo}/${hi}`;
      if (value === null) {
        assertEquals(map.delete(lo, hi), model.get(name) ?? -1);
        model.delete(name);
      } else {
        map.set(lo, hi, value);
        model.set(name, value);
      }
      assertEquals(map.size, model.size);
    }
    for (const lo of [0, 1, 2, 0xffff_ffff]) {
      for (let hi = 0; hi <= 20; hi++) assertEquals(map.get(lo, hi), model.get(`${lo}/${hi}`) ?? -1);
    }
  }));
});

Deno.test("U64Map gives room back", () => {
  const map = new U64Map();
  for (let i = 0; i < 10_000; i++) map.set(i, i, i);
  const most = map.bytes;
  for (let i = 0; i < 10_000; i++) map.delete(i, i);
  assertEquals([map.size, map.bytes < most / 100], [0, true]);
});
