import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { TokenplaneError } from "../../src/errors.ts";
import { AdmissionGate } from "../../transports/admission.ts";

/** A queue of bounded size that a test empties by hand. */
class Queue {
  readonly items: string[] = [];
  readonly taken: string[] = [];
  readonly capacity: number;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  readonly tryPush = (item: string): boolean => {
    if (this.items.length >= this.capacity) return false;
    this.items.push(item);
    return true;
  };

  take(): void {
    const item = this.items.shift();
    if (item !== undefined) this.taken.push(item);
  }
}

function ignoreBug(): void {}

Deno.test("AdmissionGate keeps A, B, C in order through a queue of one, with nobody waiting for B", () => {
  const queue = new Queue(1);
  const gate = new AdmissionGate(queue.tryPush, ignoreBug);
  const admitted: string[] = [];
  assertEquals(gate.send("A", null), null);
  const b = gate.send("B", null);
  gate.send("C", () => admitted.push("C"));
  for (let i = 0; i < 3; i++) {
    queue.take();
    gate.pump();
  }
  assertEquals([queue.taken, admitted, b?.state], [["A", "B", "C"], ["C"], "admitted"]);
});

Deno.test("AdmissionGate sends a newcomer to the end of the line although the queue has room", () => {
  const queue = new Queue(1);
  const gate = new AdmissionGate(queue.tryPush, ignoreBug);
  for (const item of ["A", "B", "C"]) gate.send(item, null);
  queue.take();
  assert(gate.send("D", null) !== null);
  for (let i = 0; i < 4; i++) {
    gate.pump();
    queue.take();
  }
  assertEquals(queue.taken, ["A", "B", "C", "D"]);
});

Deno.test("AdmissionGate.cancel frees the place and keeps the order of those behind", () => {
  const queue = new Queue(1);
  const gate = new AdmissionGate(queue.tryPush, ignoreBug);
  const errors: (string | undefined)[] = [];
  gate.send("A", null);
  const tickets = ["B", "C", "D"].map((item) => gate.send(item, (error) => errors.push(error?.code))!);
  assertEquals(gate.cancel(tickets[1]!), true);
  assertEquals(gate.cancel(tickets[1]!), false);
  assertEquals([tickets[1]!.state, errors], ["failed", ["cancelled"]]);
  assertEquals(gate.cancel(tickets[0]!), true, "the head too");
  queue.take();
  gate.pump();
  assertEquals([queue.items, gate.waiting], [["D"], 0]);
  assertEquals(gate.cancel(tickets[2]!), false, "too late");
});

Deno.test("AdmissionGate.failAll fails what waits, and what is sent meanwhile waits anew", () => {
  const queue = new Queue(1);
  const gate = new AdmissionGate(queue.tryPush, ignoreBug);
  const log: string[] = [];
  gate.send("A", null);
  gate.send("B", (error) => {
    log.push(`B ${error?.code}`);
    gate.send("E", (again) => log.push(`E ${again?.code ?? "admitted"}`));
  });
  gate.send("C", (error) => log.push(`C ${error?.code}`));
  gate.failAll(new TokenplaneError("connection", "Cannot send"));
  assertEquals([log, gate.waiting], [["B connection", "C connection"], 1]);
  queue.take();
  gate.pump();
  assertEquals([log.at(-1), queue.items], ["E admitted", ["E"]]);
});

Deno.test("AdmissionGate keeps the order when a callback sends or pumps again", () => {
  const queue = new Queue(2);
  const gate = new AdmissionGate(queue.tryPush, ignoreBug);
  for (const item of ["A", "B"]) gate.send(item, null);
  gate.send("C", () => {
    gate.send("E", null);
    gate.pump();
  });
  gate.send("D", null);
  for (let i = 0; i < 6; i++) {
    queue.take();
    gate.pump();
  }
  assertEquals(queue.taken, ["A", "B", "C", "D", "E"]);
});

Deno.test("AdmissionGate goes on behind a callback that throws", () => {
  const queue = new Queue(1);
  const bugs: unknown[] = [];
  const gate = new AdmissionGate(queue.tryPush, (caught) => void bugs.push(caught));
  const seen: string[] = [];
  gate.send("A", null);
  gate.send("B", () => {
    throw new Error("callback");
  });
  gate.send("C", () => seen.push("C"));
  for (let i = 0; i < 3; i++) {
    queue.take();
    gate.pump();
  }
  assertEquals([queue.taken, seen, bugs.length], [["A", "B", "C"], ["C"], 1]);
});

Deno.test("AdmissionGate makes no ticket on the fast path, and gates are independent", () => {
  const [full, empty] = [new Queue(0), new Queue(1)];
  const blocked = new AdmissionGate(full.tryPush, ignoreBug);
  assert(blocked.send("A", null) !== null);
  assertEquals(new AdmissionGate(empty.tryPush, ignoreBug).send("B", null), null);
});

Deno.test("AdmissionGate admits in the order of sends, whatever the schedule", () => {
  type Step = { kind: "send" | "take" | "cancel"; pick: number };
  const step: fc.Arbitrary<Step> = fc.record({
    kind: fc.constantFrom("send" as const, "send" as const, "take" as const, "cancel" as const),
    pick: fc.nat(50),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 3_000 }), fc.integer({ min: 1, max: 5 }), (steps, capacity) => {
      const queue = new Queue(capacity);
      const gate = new AdmissionGate(queue.tryPush, ignoreBug);
      const tickets: NonNullable<ReturnType<typeof gate.send>>[] = [];
      const settled = new Map<string, number>();
      const expected: string[] = [];
      let next = 0;
      for (const { kind, pick } of steps) {
        if (kind === "send") {
          const item = String(next++);
          expected.push(item);
          const ticket = gate.send(item, () => settled.set(item, (settled.get(item) ?? 0) + 1));
          if (ticket !== null) tickets.push(ticket);
        } else if (kind === "take") {
          queue.take();
          gate.pump();
        } else {
          const ticket = tickets[pick];
          if (ticket !== undefined && gate.cancel(ticket)) expected.splice(expected.indexOf(ticket.item), 1);
        }
      }
      while (queue.items.length > 0) {
        queue.take();
        gate.pump();
      }
      assertEquals(queue.taken, expected);
      assertEquals(gate.waiting, 0);
      for (const ticket of tickets) assertEquals(settled.get(ticket.item), 1);
    }),
    { numRuns: 60 },
  );
});
