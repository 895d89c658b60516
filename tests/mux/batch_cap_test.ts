import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { effectiveBatchCap } from "../../src/mux/batch_cap.ts";

Deno.test("effectiveBatchCap is the least of its three limits and never under its floor", () => {
  const cases: [string, number, number, number][] = [
    ["the configured cap binds when it is the smallest", 1_000, 50_000, 1_000],
    ["the coalescing threshold binds over a larger configured cap", 1_000_000, 1_000_000, 65_536],
    ["a tight eager budget binds over both", 61_440, 4_096, 4_096],
    ["the default binds over the usual budget", 61_440, 262_144, 61_440],
    ["the floor survives a tiny cap", 1, 50_000, 29],
    ["the floor survives a tiny budget", 61_440, 0, 29],
    ["the floor survives a budget below zero", 61_440, -100, 29],
    ["the floor itself", 29, 29, 29],
    ["one above the floor", 30, 99, 30],
  ];
  for (const [name, configured, eager, cap] of cases) {
    assertEquals(effectiveBatchCap(configured, eager), cap, name);
  }
});

Deno.test("effectiveBatchCap always admits a header and one empty record", () => {
  fc.assert(fc.property(fc.nat(200_000), fc.nat(200_000), (configured, eager) => {
    const cap = effectiveBatchCap(configured, eager);
    assertEquals(cap >= 29 && cap <= 65_536, true);
  }));
});
