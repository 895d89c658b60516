import { assert, assertEquals } from "@std/assert";
import { entryFor } from "../../src/frontend/keys/key_entry.ts";
import { KeyGuard } from "../../src/frontend/keys/key_guard.ts";
import { requestIdOf } from "../../src/frontend/request_id.ts";

Deno.test("KeyGuard admits each key as a bearer token and nothing else", () => {
  const keys = ["alpha", "beta"].map((key, place) => ({
    ...entryFor(key, { rpm: 0, concurrent: 0 }),
    place,
  }));
  const guard = new KeyGuard({ isOpen: false, keys });
  for (const good of ["Bearer alpha", "bearer beta", "Bearer  alpha"]) assert(guard.admits(good), good);
  for (const bad of [undefined, "", "alpha", "Bearer", "Bearer gamma", "Bearer alpha beta", "Basic alpha"]) {
    assertEquals(guard.admits(bad), false, bad);
  }
  assert(new KeyGuard({ isOpen: true, keys: [] }).admits(undefined));
  assertEquals(new KeyGuard({ isOpen: false, keys: [] }).admits("Bearer alpha"), false);
});

Deno.test("requestIdOf keeps what is safe to repeat", () => {
  assertEquals(requestIdOf("a-1"), "a-1");
  for (const bad of [undefined, "", "a b", "\u00e9", "x".repeat(129), ["a", "b"]]) {
    assertEquals(requestIdOf(bad).length, 36);
  }
});
