import { assert, assertEquals, assertFalse, assertLess } from "@std/assert";
import fc from "fast-check";
import { ControlInbox } from "../../src/mux/control_inbox.ts";
import { CloseReason } from "../../src/mux/wire/batch.ts";
import { packSlot } from "../../src/mux/wire/slot_id.ts";

const U32_MAX = 0xffffffff;
const always = (): boolean => true;
const never = (): boolean => false;

function drained(inbox: ControlInbox): string[] {
  const seen: string[] = [];
  inbox.drain({
    onGrant: (slot, delta) => seen.push(`grant ${slot} ${delta}`),
    onClose: (slot, reason) => seen.push(`close ${slot} ${reason}`),
  });
  return seen;
}

Deno.test("ControlInbox accumulates 10,000 grants into one entry", () => {
  const inbox = new ControlInbox(always);
  for (let n = 0; n < 10_000; n++) assert(inbox.addGrant(7, 3));
  assertEquals(inbox.size, 1);
  assertEquals(drained(inbox), ["grant 7 30000"]);
  assertEquals([inbox.size, drained(inbox)], [0, []]);
});

Deno.test("ControlInbox saturates a sum of grants at the largest u32", () => {
  const inbox = new ControlInbox(always);
  inbox.addGrant(1, U32_MAX);
  inbox.addGrant(1, U32_MAX);
  assertEquals(drained(inbox), [`grant 1 ${U32_MAX}`]);
});

Deno.test("ControlInbox lets the first reason to close win and gives the grant before the close", () => {
  const inbox = new ControlInbox(always);
  inbox.addClose(1, CloseReason.terminalSent);
  inbox.addClose(1, CloseReason.protocolError);
  inbox.addGrant(1, 4);
  inbox.addClose(2, CloseReason.unknownSlot);
  assertEquals(drained(inbox), ["grant 1 4", "close 1 0", "close 2 2"]);
});

Deno.test("ControlInbox drains in order of first entry", () => {
  const inbox = new ControlInbox(always);
  for (const slot of [9, 2, 5, 2, 9]) inbox.addGrant(slot, 1);
  assertEquals(drained(inbox), ["grant 9 2", "grant 2 2", "grant 5 1"]);
});

Deno.test("ControlInbox keeps generations of one index apart", () => {
  const inbox = new ControlInbox(always);
  inbox.addGrant(packSlot(3, 1), 1);
  inbox.addGrant(packSlot(3, 2), 10);
  inbox.addClose(packSlot(3, 1), CloseReason.peerGone);
  assertEquals(drained(inbox), [
    `grant ${packSlot(3, 1)} 1`,
    `close ${packSlot(3, 1)} 1`,
    `grant ${packSlot(3, 2)} 10`,
  ]);
});

Deno.test("ControlInbox refuses no entry of a live slot, however many live", () => {
  const live = 10_000;
  const inbox = new ControlInbox((slot) => slot < live, 8);
  for (let slot = 0; slot < live; slot++) {
    assert(inbox.addGrant(slot, 1));
    assert(inbox.addClose(slot, CloseReason.protocolError));
  }
  assertEquals([inbox.size, inbox.refused], [live, 0]);
  assertEquals(drained(inbox).length, 2 * live);
});

Deno.test("ControlInbox refuses and counts new ids that are not live, rather than grow", () => {
  const none = new ControlInbox(never);
  assertFalse(none.addGrant(1, 1));
  assertFalse(none.addClose(2, CloseReason.unknownSlot));
  assertEquals([none.size, none.refused, drained(none)], [0, 2, []]);

  const some = new ControlInbox(never, 2);
  assert(some.addClose(1, CloseReason.unknownSlot) && some.addClose(2, CloseReason.unknownSlot));
  assertFalse(some.addClose(3, CloseReason.unknownSlot));
  assert(some.addGrant(1, 5), "an entry that is there still merges");
  assertEquals([some.size, some.refused], [2, 1]);
  assertEquals(drained(some), ["grant 1 5", "close 1 2", "close 2 2"]);
  assert(some.addClose(3, CloseReason.unknownSlot), "a drain makes room again");
});

Deno.test("ControlInbox stays bounded while slots come and go and nobody drains", () => {
  const alive = new Set<number>();
  const inbox = new ControlInbox((slot) => alive.has(slot), 64);
  const resident = Array.from({ length: 100 }, (_, i) => i);
  for (const slot of resident) alive.add(slot);
  for (const slot of resident) inbox.addGrant(slot, 1);
  let largest = 0;
  for (let slot = 1_000; slot < 101_000; slot++) {
    alive.add(slot);
    assert(inbox.addGrant(slot, 1));
    if (slot % 2 === 0) assert(inbox.addClose(slot, CloseReason.protocolError));
    alive.delete(slot);
    largest = Math.max(largest, inbox.size);
  }
  assertLess(largest, 2_000);
  const seen = drained(inbox);
  for (const slot of resident) assert(seen.includes(`grant ${slot} 1`), `${slot} was lost`);
});

Deno.test("ControlInbox keeps what a visitor adds for the next drain", () => {
  const inbox = new ControlInbox(always);
  inbox.addGrant(1, 1);
  let visits = 0;
  inbox.drain({
    onGrant: (slot) => {
      visits++;
      inbox.addGrant(slot, 2);
      inbox.addGrant(slot + 1, 3);
    },
    onClose: () => {},
  });
  assertEquals([visits, drained(inbox)], [1, ["grant 1 2", "grant 2 3"]]);
});

Deno.test("ControlInbox hands over what plain sums hold, for live slots, under any schedule", () => {
  const step = fc.record({
    op: fc.constantFrom("grant", "close", "die", "drain"),
    slot: fc.nat(12),
    n: fc.integer({ min: 1, max: 3 }),
  });
  fc.assert(fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
    const dead = new Set<number>();
    const inbox = new ControlInbox((slot) => !dead.has(slot), 2);
    let plain = new Map<number, { credit: number; close: number | null }>();
    let strangers = 0, refused = 0;
    for (const { op, slot, n } of steps) {
      if (op === "die") dead.add(slot);
      else if (op === "drain") {
        const expected = [...plain].flatMap(([id, { credit, close }]) => [
          ...(credit > 0 ? [`grant ${id} ${credit}`] : []),
          ...(close !== null ? [`close ${id} ${close}`] : []),
        ]);
        assertEquals(drained(inbox), expected);
        plain = new Map();
        strangers = 0;
      } else {
        let entry = plain.get(slot);
        if (entry === undefined && (!dead.has(slot) || strangers < 2)) {
          if (dead.has(slot)) strangers++;
          plain.set(slot, entry = { credit: 0, close: null });
        }
        if (entry === undefined) refused++;
        else if (op === "grant") entry.credit += n;
        else entry.close ??= n;
        const taken = op === "grant" ? inbox.addGrant(slot, n) : inbox.addClose(slot, n as CloseReason);
        assertEquals(taken, entry !== undefined);
      }
      assertEquals([inbox.size, inbox.refused], [plain.size, refused]);
    }
  }));
});
