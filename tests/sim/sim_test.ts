import { assertEquals } from "@std/assert";
import { simulate } from "./simulate.ts";

const SEEDS = 400;

Deno.test(`simulate finds no fault in ${SEEDS} random schedules`, () => {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { failures, setup } = simulate(seed);
    assertEquals(failures, [], `replay with: deno task sim --seed ${seed} (${setup})`);
  }
});

Deno.test("simulate finds no fault in long schedules", () => {
  for (let seed = 1; seed <= 10; seed++) {
    const { failures, setup } = simulate(seed, { steps: 1_500 });
    assertEquals(failures, [], `replay with: deno task sim --seed ${seed} --steps 1500 (${setup})`);
  }
});

Deno.test("simulate replays a schedule identically from its seed", () => {
  for (const seed of [3, 77, 1234]) assertEquals(simulate(seed), simulate(seed));
});

Deno.test("simulate makes other schedules from other seeds", () => {
  const digests = new Set(Array.from({ length: 50 }, (_, seed) => simulate(seed + 1).digest));
  assertEquals(digests.size, 50);
});
