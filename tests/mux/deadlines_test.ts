import { assertEquals, assertLess, assertThrows } from "@std/assert";
import fc from "fast-check";
import type { TimerHandle } from "../../src/clock.ts";
import { type DeadlineEntry, type DeadlineLane, Deadlines } from "../../src/mux/deadlines.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

/** Counts the timers that are set. */
class CountingClock extends VirtualClock {
  set = 0;

  override setTimer(callback: () => void, ms: number): TimerHandle {
    this.set++;
    return super.setTimer(callback, ms);
  }
}

function setup(...durations: number[]) {
  const clock = new VirtualClock(1_000);
  const deadlines = new Deadlines(clock);
  const fired: string[] = [];
  const lanes = durations.map((ms) =>
    deadlines.lane<string>(ms, (owner) => fired.push(`${owner}@${clock.now() - 1_000}`))
  );
  return { clock, deadlines, fired, lanes: lanes as [DeadlineLane<string>, DeadlineLane<string>] };
}

Deno.test("Deadlines fires each owner once, at its deadline, over all lanes", () => {
  const { clock, deadlines, fired, lanes: [short, long] } = setup(10, 25);
  long.arm("a");
  clock.advance(5);
  short.arm("b");
  clock.advance(5);
  short.arm("c");
  assertEquals([deadlines.liveEntries, deadlines.timersHeld, clock.pendingTimers], [3, 1, 1]);
  clock.advance(1_000);
  assertEquals(fired, ["b@15", "c@20", "a@25"]);
  assertEquals([deadlines.liveEntries, deadlines.timersHeld, clock.pendingTimers], [0, 0, 0]);
});

Deno.test("Deadlines is left without a timer by owners that cancel", () => {
  const { clock, deadlines, fired, lanes: [lane] } = setup(60_000);
  const entries = Array.from({ length: 1_000 }, (_, i) => lane.arm(`${i}`));
  assertEquals([deadlines.liveEntries, clock.pendingTimers], [1_000, 1]);
  for (const entry of entries) lane.cancel(entry);
  for (const entry of entries) lane.cancel(entry);
  assertEquals([deadlines.liveEntries, deadlines.timersHeld, clock.pendingTimers], [0, 0, 0]);
  clock.advance(120_000);
  assertEquals(fired, []);
});

Deno.test("Deadlines moves its timer forward for an earlier deadline of another lane", () => {
  const { clock, fired, lanes: [short, long] } = setup(10, 1_000);
  long.arm("long");
  short.arm("short");
  assertEquals(clock.pendingTimers, 1);
  clock.advance(10);
  assertEquals([fired, clock.pendingTimers], [["short@10"], 1]);
});

Deno.test("DeadlineLane re-arms an entry, pending or fired, also from inside onDue", () => {
  const clock = new VirtualClock();
  const deadlines = new Deadlines(clock);
  const beats: number[] = [];
  const lane: DeadlineLane<null> = deadlines.lane<null>(10, () => {
    beats.push(clock.now());
    if (beats.length < 3) lane.rearm(entry);
  });
  const entry: DeadlineEntry<null> = lane.arm(null);
  clock.advance(5);
  lane.rearm(entry);
  assertEquals(deadlines.liveEntries, 1);
  clock.advance(10);
  assertEquals([beats, deadlines.liveEntries, clock.pendingTimers], [[15], 1, 1]);
  clock.advance(90);
  assertEquals(beats, [15, 25, 35]);
  lane.rearm(entry);
  clock.advance(10);
  assertEquals([beats.length, beats[3], clock.pendingTimers], [4, 115, 0]);
});

Deno.test("DeadlineLane leaves an entry of another lane alone", () => {
  const { deadlines, lanes: [one, other] } = setup(10, 10);
  const entry = one.arm("x");
  other.cancel(entry);
  assertEquals(deadlines.liveEntries, 1);
  other.rearm(entry);
  assertEquals([deadlines.liveEntries, one.headAt, other.headAt], [1, Infinity, 1_010]);
});

Deno.test("Deadlines lets an owner cancel others that are due at the same instant", () => {
  const clock = new VirtualClock();
  const deadlines = new Deadlines(clock);
  const fired: number[] = [];
  const entries: DeadlineEntry<number>[] = [];
  const lane = deadlines.lane<number>(10, (owner) => {
    fired.push(owner);
    lane.cancel(entries[owner + 1]!);
  });
  for (let owner = 0; owner < 6; owner++) entries.push(lane.arm(owner));
  clock.advance(10);
  assertEquals(fired, [0, 2, 4]);
  assertEquals([deadlines.liveEntries, clock.pendingTimers], [0, 0]);
});

Deno.test("Deadlines keeps its timer when an owner throws", () => {
  const clock = new VirtualClock();
  const deadlines = new Deadlines(clock);
  const fired: string[] = [];
  const lane = deadlines.lane<string>(10, (owner) => {
    if (owner === "bad") throw new Error("Cannot be told");
    fired.push(owner);
  });
  lane.arm("bad");
  lane.arm("good");
  assertThrows(() => clock.advance(10), Error, "Cannot be told");
  clock.advance(10);
  assertEquals([fired, deadlines.liveEntries, clock.pendingTimers], [["good"], 0, 0]);
});

Deno.test("Deadlines forgets everything at close", () => {
  const { clock, deadlines, fired, lanes: [short, long] } = setup(10, 25);
  short.arm("a");
  long.arm("b");
  deadlines.close();
  clock.advance(100);
  assertEquals([fired, deadlines.liveEntries, clock.pendingTimers], [[], 0, 0]);
});

Deno.test("Deadlines refuses a lane without a duration", () => {
  const deadlines = new Deadlines(new VirtualClock());
  for (const ms of [0, -1, NaN, Infinity]) {
    assertThrows(() => deadlines.lane(ms, () => {}), RangeError, `"${ms}"`);
  }
});

Deno.test("Deadlines fires what a plain list of deadlines fires, under any schedule", () => {
  const durations = [3, 10, 50];
  const step = fc.oneof(
    fc.record({ op: fc.constant("arm" as const), lane: fc.nat(2), n: fc.constant(0) }),
    fc.record({
      op: fc.constantFrom("cancel" as const, "rearm" as const),
      lane: fc.constant(0),
      n: fc.nat(60),
    }),
    fc.record({ op: fc.constant("advance" as const), lane: fc.constant(0), n: fc.nat(20) }),
  );
  fc.assert(fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
    const clock = new VirtualClock();
    const deadlines = new Deadlines(clock);
    const fired: string[] = [];
    const lanes = durations.map((ms) =>
      deadlines.lane<number>(ms, (owner) => fired.push(`${owner}@${clock.now()}`))
    );
    const entries: { entry: DeadlineEntry<number>; lane: number; due: number }[] = [];
    const expected: string[] = [];
    for (const { op, lane, n } of steps) {
      const one = entries[n];
      if (op === "arm") {
        const entry = lanes[lane]!.arm(entries.length);
        entries.push({ entry, lane, due: clock.now() + durations[lane]! });
      } else if (op === "advance") {
        clock.advance(n);
        const due = entries.map((e, owner) => ({ owner, due: e.due })).filter((e) => e.due <= clock.now());
        for (const e of due) {
          entries[e.owner]!.due = Infinity;
          expected.push(`${e.owner}@${e.due}`);
        }
      } else if (one !== undefined && op === "cancel") {
        lanes[one.lane]!.cancel(one.entry);
        one.due = Infinity;
      } else if (one !== undefined) {
        lanes[one.lane]!.rearm(one.entry);
        one.due = clock.now() + durations[one.lane]!;
      }
      const pending = entries.filter((e) => e.due < Infinity).length;
      assertEquals([deadlines.liveEntries, deadlines.timersHeld], [pending, Math.min(1, pending)]);
      assertEquals(clock.pendingTimers, deadlines.timersHeld);
    }
    assertEquals(fired.toSorted(), expected.toSorted());
    const times = fired.map((text) => Number(text.split("@")[1]));
    assertEquals(times, times.toSorted((a, b) => a - b));
  }));
});

Deno.test("Deadlines holds 200,000 entries on one timer in little memory", () => {
  const clock = new VirtualClock();
  const deadlines = new Deadlines(clock);
  let due = 0;
  const lane = deadlines.lane<number>(120_000, () => due++);
  const entries: DeadlineEntry<number>[] = new Array(200_000);
  const before = Deno.memoryUsage();
  for (let owner = 0; owner < entries.length; owner++) entries[owner] = lane.arm(owner);
  const after = Deno.memoryUsage();
  assertEquals([deadlines.liveEntries, deadlines.timersHeld, clock.pendingTimers], [200_000, 1, 1]);
  // The bound of a whole unattached anchor is 170 MiB for as many; its deadline may take a small part of that.
  assertLess(after.heapUsed - before.heapUsed, 40 * 1_048_576);
  for (let owner = 0; owner < entries.length; owner += 2) lane.cancel(entries[owner]!);
  clock.advance(120_000);
  assertEquals([due, deadlines.liveEntries, clock.pendingTimers], [100_000, 0, 0]);
});

Deno.test("Deadlines sets no timer per stream while others are pending", () => {
  const clock = new CountingClock();
  const lane = new Deadlines(clock).lane<number>(60_000, () => {});
  const kept = lane.arm(-1);
  for (let n = 0; n < 10_000; n++) {
    lane.cancel(lane.arm(n));
    clock.advance(1);
  }
  assertEquals(clock.set, 1);
  for (let n = 0; n < 10_000; n++) lane.rearm(kept);
  assertEquals([clock.set, clock.pendingTimers], [1, 1]);
  lane.cancel(kept);
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("Deadlines knows only lanes that hold something", () => {
  const { clock, deadlines, lanes: [short, long] } = setup(10, 25);
  assertEquals(deadlines.activeLanes, 0);
  const entry = short.arm("a");
  long.arm("b");
  long.arm("c");
  assertEquals(deadlines.activeLanes, 2);
  short.cancel(entry);
  assertEquals(deadlines.activeLanes, 1);
  clock.advance(25);
  assertEquals(deadlines.activeLanes, 0);
});

Deno.test("Deadlines that follow each other closely share firings, each late by its lane's slack at the most", () => {
  const clock = new CountingClock();
  const late: number[] = [];
  const deadlines = new Deadlines(clock);
  const lane = deadlines.lane<number>(5_000, (dueAt) => late.push(clock.now() - dueAt));
  for (let n = 0; n < 1_000; n++) {
    lane.arm(clock.now() + 5_000);
    clock.advance(5);
  }
  // Another lane's deadline is not made late by it.
  let shortAt = -1;
  deadlines.lane<null>(10, () => shortAt = clock.now()).arm(null);
  const armedAt = clock.now();
  clock.advance(6_000);
  assertEquals([late.length, deadlines.liveEntries, shortAt], [1_000, 0, armedAt + 10]);
  assertEquals(Math.min(...late), 0);
  assertLess(Math.max(...late), lane.slackMs + 1);
  // 5 s of deadlines, 50 ms apart, in place of one firing each.
  assertLess(clock.set, 110);
});
