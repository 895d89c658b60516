import { assertEquals } from "@std/assert";
import { affordableConnections, descriptorLimit, readLimit } from "../../src/modes/descriptor_limit.ts";

Deno.test("affordableConnections leaves descriptors for lanes, and never refuses every client", () => {
  const cases: readonly [wanted: number, shards: number, limit: number, expected: number][] = [
    [65_536, 1, Infinity, 65_536],
    [65_536, 2, 1_048_576, 65_536],
    [100, 1, 1_024, 100],
    [65_536, 1, 1_024, 488],
    [65_536, 2, 1_024, 240],
    [65_536, 1, 64, 8],
    [65_536, 4, 64, 1],
    [65_536, 1, 0, 1],
  ];
  for (const [wanted, shards, limit, expected] of cases) {
    assertEquals(affordableConnections(wanted, shards, limit), expected);
  }
});

Deno.test("readLimit finds the soft limit, and none in a text without it", () => {
  const text = "Limit                     Soft Limit           Hard Limit           Units     \n" +
    "Max processes             96450                96450                processes \n" +
    "Max open files            1024                 524288               files     \n";
  assertEquals(readLimit(text), 1_024);
  assertEquals(
    readLimit("Max open files            unlimited            unlimited            files"),
    Infinity,
  );
  assertEquals(readLimit(""), Infinity);
  assertEquals(descriptorLimit() > 0, true);
});
