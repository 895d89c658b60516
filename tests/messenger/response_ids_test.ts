import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { ResponseArena } from "../../src/messenger/response_ids.ts";
import { hex, unhex } from "../support/hex.ts";

const WORKER = 0xba7333c2a9286a12n;

function acquire(arena: ResponseArena<string>, value: string): { slot: number; id: Uint8Array } {
  const id = new Uint8Array(16);
  return { slot: arena.acquire(value, id, 0), id };
}

Deno.test("ResponseArena writes worker id, slot and generation, little-endian", () => {
  const arena = new ResponseArena<string>(WORKER);
  assertEquals(hex(acquire(arena, "a").id), "126a28a9c23373ba0000000000000000");
  const { slot, id } = acquire(arena, "b");
  assertEquals(hex(id), "126a28a9c23373ba0100000000000000");
  arena.release(slot);
  assertEquals(hex(acquire(arena, "c").id), "126a28a9c23373ba0100010000000000");
});

Deno.test("ResponseArena finds a call by its id only while it waits", () => {
  const arena = new ResponseArena<string>(WORKER);
  const { slot, id } = acquire(arena, "a");
  assertEquals(arena.find(id, 0), { slot, value: "a" });
  assertEquals(arena.find(id, 1), null, "out of bounds");
  const others = [
    "136a28a9c23373ba0000000000000000", // another worker
    "126a28a9c23373ba0100000000000000", // a slot never used
    "126a28a9c23373baffff000000000000", // the slot that is never used
    "126a28a9c23373ba0000010000000000", // another generation
    "126a28a9c23373ba0000000000000001",
  ];
  for (const other of others) assertEquals(arena.find(unhex(other), 0), null, other);
  arena.release(slot);
  assertEquals([arena.find(id, 0), arena.pending], [null, 0]);
  arena.release(slot);
  const again = acquire(arena, "b");
  assertEquals([again.slot, arena.find(id, 0), arena.find(again.id, 0)?.value], [slot, null, "b"]);
});

Deno.test("ResponseArena fails fast when full, yet stamps messages that nobody answers", () => {
  const arena = new ResponseArena<string>(WORKER, 2);
  const first = acquire(arena, "a");
  acquire(arena, "b");
  assertEquals([acquire(arena, "c").slot, arena.exhausted, arena.pending], [-1, 1, 2]);
  const id = new Uint8Array(16).fill(0xaa);
  arena.stamp(id, 0);
  assertEquals([hex(id), arena.find(id, 0)], ["126a28a9c23373baffff000000000000", null]);
  arena.release(first.slot);
  assertEquals(acquire(arena, "d").slot, first.slot);
});

Deno.test("ResponseArena hands slots out again in the order they came back", () => {
  const arena = new ResponseArena<string>(WORKER);
  const slots = ["a", "b", "c"].map((value) => acquire(arena, value).slot);
  for (const slot of [slots[1]!, slots[2]!, slots[0]!]) arena.release(slot);
  assertEquals(["d", "e", "f", "g"].map((value) => acquire(arena, value).slot), [1, 2, 0, 3]);
});

Deno.test("ResponseArena.stamp gives its slot back at once", () => {
  const arena = new ResponseArena<string>(WORKER);
  const id = new Uint8Array(16);
  for (let i = 0; i < 200_000; i++) arena.stamp(id, 0);
  assertEquals([arena.pending, arena.exhausted], [0, 0]);
  assertEquals(new DataView(id.buffer).getUint32(10, true), 199_999);
});

Deno.test("ResponseArena never gives one id twice and never answers the wrong call", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(9), { maxLength: 400 }), (steps) => {
      const arena = new ResponseArena<string>(WORKER, 8);
      const live: { slot: number; id: Uint8Array; value: string }[] = [];
      const seen = new Set<string>();
      for (const [i, step] of steps.entries()) {
        if (step < 5) {
          const made = acquire(arena, String(i));
          if (made.slot < 0) {
            assertEquals(live.length, 8);
            continue;
          }
          assert(!seen.has(hex(made.id)));
          seen.add(hex(made.id));
          live.push({ ...made, value: String(i) });
        } else {
          const [gone] = live.splice(step % Math.max(1, live.length), 1);
          if (gone === undefined) continue;
          arena.release(gone.slot);
          assertEquals(arena.find(gone.id, 0), null);
        }
        for (const call of live) assertEquals(arena.find(call.id, 0)?.value, call.value);
        assertEquals(arena.pending, live.length);
      }
    }),
    { numRuns: 100 },
  );
});
