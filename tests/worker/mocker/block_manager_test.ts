import { assertEquals } from "@std/assert";
import { BlockManager, type CacheEvents } from "../../../src/worker/engines/mocker/block_manager.ts";

const numbered = {
  blockAt: (index: number) => 100 + index,
  localHashAt: (index: number) => [index, 0] as const,
};

function recording(): { events: CacheEvents; seen: string[] } {
  const seen: string[] = [];
  return {
    seen,
    events: {
      onStored: (parent, block) => void seen.push(`stored ${block} behind ${parent}`),
      onRemoved: (block) => void seen.push(`removed ${block}`),
    },
  };
}

Deno.test("BlockManager shares a block among requests and keeps it when all have let go", () => {
  const { events, seen } = recording();
  const blocks = new BlockManager(4, events);
  assertEquals([blocks.use(numbered, 0), blocks.use(numbered, 0), blocks.use(numbered, 1)], [
    true,
    true,
    true,
  ]);
  assertEquals([blocks.active, blocks.available], [2, 2]);
  blocks.release(100);
  assertEquals([blocks.active, blocks.inactive], [2, 0]);
  blocks.release(100);
  assertEquals([blocks.active, blocks.inactive, blocks.has(100)], [1, 1, true]);
  blocks.use(numbered, 0);
  assertEquals(blocks.inactive, 0);
  assertEquals(seen, ["stored 100 behind null", "stored 101 behind 100"]);
  assertEquals(blocks.stats, { hits: 2, misses: 2, evictions: 0 });
});

Deno.test("BlockManager evicts the longest unused block, and refuses when all are held", () => {
  const { events, seen } = recording();
  const blocks = new BlockManager(2, events);
  blocks.use(numbered, 0);
  blocks.use(numbered, 1);
  assertEquals([blocks.use(numbered, 2), blocks.usePartial()], [false, false]);
  blocks.release(101);
  blocks.release(100);
  assertEquals(blocks.use(numbered, 2), true);
  assertEquals([blocks.has(100), blocks.has(101)], [true, false]);
  assertEquals(seen.slice(2), ["removed 101", "stored 102 behind 101"]);
});

Deno.test("BlockManager makes a partial block a full one, or finds that it is there already", () => {
  const { events, seen } = recording();
  const blocks = new BlockManager(3, events);
  blocks.usePartial();
  blocks.usePartial();
  blocks.promote(numbered, 0);
  assertEquals([blocks.active, seen.length], [2, 1]);
  blocks.promote(numbered, 0);
  assertEquals([blocks.active, seen.length], [1, 1]);
  blocks.release(100);
  blocks.release(100);
  assertEquals([blocks.active, blocks.inactive], [0, 1]);
});
