import { assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../../src/errors.ts";
import { entryFor, MAX_KEYS } from "../../../src/frontend/keys/key_entry.ts";
import { KeyMemory, PLACES } from "../../../src/frontend/keys/key_memory.ts";
import { KeyRing } from "../../../src/frontend/keys/key_ring.ts";

const LIMITS = { rpm: 10, concurrent: 0 };
const entries = (...keys: string[]) => keys.map((key) => entryFor(key, LIMITS));
const many = (prefix: string, count: number) =>
  entries(...Array.from({ length: count }, (_, i) => `${prefix}${i}`));

Deno.test("KeyRing keeps a key in its place when others come and go", () => {
  const ring = new KeyRing(new KeyMemory(1));
  const [a, b] = ring.replace(entries("a", "b"), true).keys;
  const again = ring.replace(entries("c", "b"), true).keys;
  assertEquals([again[1]!.digest, again[1]!.place], [b!.digest, b!.place]);
  assertNotEquals(again[0]!.place, b!.place);
  assertNotEquals(again[0]!.place, a!.place);
});

Deno.test("KeyRing lets everyone in without keys only where there are none by intention", () => {
  const ring = new KeyRing(new KeyMemory(1));
  assertEquals(ring.replace([], true), { isOpen: true, keys: [] });
  assertEquals(ring.replace([], false), { isOpen: false, keys: [] });
  assertEquals(ring.replace(entries("a"), true).isOpen, false);
});

Deno.test("KeyRing takes the first of two entries of one key", () => {
  const ring = new KeyRing(new KeyMemory(1));
  const { keys } = ring.replace(
    [entryFor("a", LIMITS, "named"), entryFor("a", { rpm: 1, concurrent: 1 })],
    true,
  );
  assertEquals(keys.map(({ name, rpm }) => [name, rpm]), [["named", 10]]);
});

Deno.test("KeyRing gives a place to another key when its requests have ended, with its whole rate", () => {
  const memory = new KeyMemory(1);
  const ring = new KeyRing(memory);
  const first = ring.replace(many("a", MAX_KEYS), true).keys;
  for (const { place } of first) {
    memory.enter(place, 0, 0);
    for (let i = 0; i < 10; i++) memory.takeTurn(place, 10, 1n);
  }
  // Both kinds fill the memory; none of the first is free.
  const second = ring.replace(many("b", PLACES - MAX_KEYS), true).keys;
  const taken = new Set([...first, ...second].map(({ place }) => place));
  assertEquals(taken.size, PLACES);
  for (const { place } of second) memory.enter(place, 0, 0);
  assertThrows(
    () => ring.replace(many("c", 1), true),
    TokenplaneError,
    "Cannot use 1 API keys: requests of those taken out have still to end",
  );
  // Nothing has changed by it.
  assertEquals(ring.replace(many("b", PLACES - MAX_KEYS), true).keys, second);
  memory.leave(first[7]!.place, 0);
  const [key] = ring.replace(many("c", 1), true).keys;
  assertEquals([key!.place, memory.takeTurn(key!.place, 10, 1n).remaining], [first[7]!.place, 9]);
});

Deno.test("KeyRing refuses more keys than there may be", () => {
  assertThrows(
    () => new KeyRing(new KeyMemory(1)).replace(many("a", MAX_KEYS + 1), true),
    TokenplaneError,
    "Cannot use 1025 API keys: allowed are 1024",
  );
});
