import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import {
  MAX_SLOT_INDEX,
  nextGeneration,
  packSlot,
  slotGeneration,
  slotIndex,
} from "../../../src/mux/wire/slot_id.ts";

Deno.test("packSlot packs and unpacks at the edges", () => {
  const edges = [[0, 0, 0], [0, 255, 0xff], [1, 0, 0x100], [0xabcdef, 0x42, 0xabcdef42], [
    0xffffff,
    255,
    0xffffffff,
  ]];
  for (const [index, generation, id] of edges as [number, number, number][]) {
    assertEquals(packSlot(index, generation), id);
    assertEquals(slotIndex(id), index);
    assertEquals(slotGeneration(id), generation);
  }
});

Deno.test("packSlot refuses an index that is no u24", () => {
  for (const index of [MAX_SLOT_INDEX + 1, -1, 0.5, NaN, Infinity, 2 ** 32]) {
    assertThrows(() => packSlot(index, 0), RangeError, `"${index}"`);
  }
});

Deno.test("slotIndex and slotGeneration take every u32 for a slot id", () => {
  fc.assert(fc.property(fc.integer({ min: 0, max: 0xffffffff }), (id) => {
    assertEquals(packSlot(slotIndex(id), slotGeneration(id)), id);
  }));
});

Deno.test("nextGeneration wraps without disturbing the index", () => {
  let generation = 0;
  for (let n = 1; n <= 256; n++) {
    generation = nextGeneration(generation);
    assertEquals(generation, n % 256);
    assertEquals(slotIndex(packSlot(MAX_SLOT_INDEX, generation)), MAX_SLOT_INDEX);
  }
});
