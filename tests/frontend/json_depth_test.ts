import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { isDeeperThan } from "../../src/frontend/json_depth.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("isDeeperThan counts nesting outside strings only", () => {
  const cases: readonly (readonly [string, number, boolean])[] = [
    ["1", 0, false],
    ["[]", 0, true],
    ["[[]]", 2, false],
    ["[[[]]]", 2, true],
    ['{"a":[{"b":1}]}', 3, false],
    ['{"a":[{"b":1}]}', 2, true],
    ['"[[[["', 0, false],
    ['["\\"[[[["]', 1, false],
    ['["\\\\",[]]', 1, true],
    ["[],[],[]", 1, false],
    ['"', 0, false],
    ['"\\', 0, false],
    ["[".repeat(1_000_000), 64, true],
  ];
  for (const [json, limit, expected] of cases) {
    assertEquals(isDeeperThan(bytes(json), limit), expected, json.slice(0, 20));
  }
});

Deno.test("isDeeperThan agrees with the depth of what JSON.parse builds", () => {
  const depthOf = (value: unknown): number =>
    typeof value === "object" && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
  fc.assert(fc.property(fc.json({ maxDepth: 6 }), fc.nat(8), (json, limit) => {
    assertEquals(isDeeperThan(bytes(json), limit), depthOf(JSON.parse(json)) > limit);
  }));
});
