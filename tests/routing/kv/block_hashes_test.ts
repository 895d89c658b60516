import { assertEquals, assertThrows } from "@std/assert";
import { xxhash3 } from "hash-wasm";
import { hashBlocks } from "../../../src/routing/kv/block_hashes.ts";

function hexOf(pairs: Uint32Array, i: number): string {
  return [pairs[2 * i + 1]!, pairs[2 * i]!].map((half) => half.toString(16).padStart(8, "0")).join("");
}

function littleEndian(hex: string): number[] {
  return hex.match(/../g)!.map((byte) => Number.parseInt(byte, 16)).reverse();
}

Deno.test("hashBlocks names blocks as xxh3-64 with seed 1337 does, each over its parent", async () => {
  const tokens = Uint32Array.of(1, 2, 3, 4, 0xffff_ffff, 6, 7);
  const { count, local, sequence } = hashBlocks(tokens, 3);
  assertEquals(count, 2);
  const bytes = new Uint8Array(tokens.buffer);
  const first = await xxhash3(bytes.subarray(0, 12), 1_337, 0);
  const second = await xxhash3(bytes.subarray(12, 24), 1_337, 0);
  assertEquals([hexOf(local, 0), hexOf(local, 1)], [first, second]);
  const chained = Uint8Array.from([...littleEndian(first), ...littleEndian(second)]);
  assertEquals([hexOf(sequence, 0), hexOf(sequence, 1)], [first, await xxhash3(chained, 1_337, 0)]);
});

Deno.test("hashBlocks gives an incomplete block no name and refuses sizes that are none", () => {
  assertEquals(hashBlocks(Uint32Array.of(1, 2), 3).count, 0);
  assertEquals(hashBlocks(new Uint32Array(0), 1).count, 0);
  for (const size of [0, -1, 1.5, Number.NaN]) {
    assertThrows(() => hashBlocks(new Uint32Array(4), size), RangeError);
  }
});
