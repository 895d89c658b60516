import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { WaitingItems } from "../../src/mux/waiting_items.ts";

Deno.test("WaitingItems gives back copies in order and counts their bytes, whatever the order of calls", () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: -3, max: 40 }), { maxLength: 400 }), (calls) => {
    const waiting = new WaitingItems();
    const naive: Uint8Array[] = [];
    for (const size of calls) {
      if (size >= 0) {
        const source = new Uint8Array(size + 2).fill(naive.length);
        waiting.pushData(source, 1, size + 1);
        naive.push(source.slice(1, size + 1));
        source.fill(0xff);
      } else {
        assertEquals(waiting.shift(), naive.shift());
      }
      assertEquals([waiting.length, waiting.bytes], [
        naive.length,
        naive.reduce((sum, item) => sum + item.length, 0),
      ]);
    }
  }));
});

Deno.test("WaitingItems keeps no item that was taken, however long the queue is never empty", () => {
  const waiting = new WaitingItems();
  const item = new Uint8Array(8);
  for (let i = 0; i < 31; i++) waiting.pushData(item, 0, 8);
  for (let i = 0; i < 10_000; i++) {
    waiting.pushData(item, 0, 8);
    waiting.shift();
    assert(waiting.stored <= 96, `${waiting.stored} entries for ${waiting.length} items`);
  }
});
