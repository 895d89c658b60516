import { assertEquals } from "@std/assert";
import { RecentModels, REMEMBERED_MS } from "../../src/routing/recent_models.ts";

Deno.test("RecentModels remembers a model for five minutes after it was last served", () => {
  const recent = new RecentModels(4);
  recent.note("m", 1_000);
  assertEquals(recent.has("other", 1_000), false);
  assertEquals(recent.has("m", 1_000 + REMEMBERED_MS - 1), true);
  recent.note("m", 2_000);
  assertEquals(recent.has("m", 1_000 + REMEMBERED_MS), true);
  assertEquals(recent.has("m", 2_000 + REMEMBERED_MS), false);
  assertEquals(recent.size, 0);
});

Deno.test("RecentModels is bounded and forgets the one first that was served longest ago", () => {
  const recent = new RecentModels(2);
  for (const model of ["a", "b", "a", "c"]) recent.note(model, 0);
  assertEquals(["a", "b", "c"].map((model) => recent.has(model, 1)), [true, false, true]);
  assertEquals(recent.size, 2);
});
