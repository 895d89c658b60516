import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { NativeMemory, type Slot } from "../../transports/ucx/memory.ts";

// Addresses come from the runtime, so these need no UCX.

Deno.test("NativeMemory never hands one byte to two takers", () => {
  const steps = fc.array(fc.oneof(fc.integer({ min: 0, max: 300_000 }), fc.constant("give" as const)), {
    maxLength: 120,
  });
  fc.assert(
    fc.property(steps, (script) => {
      const memory = new NativeMemory();
      const taken: Slot[] = [];
      for (const step of script) {
        if (step === "give") {
          const slot = taken.shift();
          if (slot !== undefined) memory.give(slot);
          continue;
        }
        const slot = memory.take(step);
        assert(slot.bytes.length >= step);
        const end = slot.address + BigInt(slot.bytes.length);
        for (const other of taken) {
          const otherEnd = other.address + BigInt(other.bytes.length);
          assert(end <= other.address || otherEnd <= slot.address, "two slots overlap");
        }
        taken.push(slot);
        assertEquals(memory.taken, taken.length);
      }
      for (const slot of taken) memory.give(slot);
      assertEquals(memory.taken, 0);
    }),
    { numRuns: 50 },
  );
});

Deno.test("NativeMemory's addresses are those of the bytes", () => {
  const memory = new NativeMemory();
  for (const size of [1, 1_024, 1_025, 8_192, 80_000, 100_000]) {
    const slot = memory.take(size);
    slot.bytes[size - 1] = 42;
    const view = new Deno.UnsafePointerView(Deno.UnsafePointer.create(slot.address)!);
    assertEquals(view.getUint8(size - 1), 42);
  }
});

Deno.test("NativeMemory refuses a slot that is given back twice", () => {
  const memory = new NativeMemory();
  for (const size of [10, 1_000_000]) {
    const slot = memory.take(size);
    memory.give(slot);
    assertThrows(() => memory.give(slot), Error, "it has not been taken");
  }
});

Deno.test("NativeMemory keeps only so much of what large sends needed", () => {
  const memory = new NativeMemory();
  const before = memory.allocatedBytes;
  const slots = Array.from({ length: 16 }, () => memory.take(1_000_000));
  for (const slot of slots) memory.give(slot);
  assert(memory.allocatedBytes - before <= 4_194_304);
  const again = memory.take(900_000);
  assert(slots.includes(again), "a kept one is used again");
});
