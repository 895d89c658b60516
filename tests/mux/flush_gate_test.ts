import { assert, assertEquals, assertFalse } from "@std/assert";
import { FlushGate } from "../../src/mux/flush_gate.ts";
import type { FlushPolicy } from "../../src/mux/options.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const MANUAL: FlushPolicy = { kind: "manual" };
const ADMISSION: FlushPolicy = { kind: "auto", onAdmission: true, maxLingerMs: null };
const LINGER: FlushPolicy = { kind: "auto", onAdmission: false, maxLingerMs: 5 };
const NEITHER: FlushPolicy = { kind: "auto", onAdmission: false, maxLingerMs: null };
const ALL = [MANUAL, ADMISSION, LINGER, NEITHER];

Deno.test("FlushGate writes whatever it has under auto with on-admission, and nothing without", () => {
  const clock = new VirtualClock();
  const gate = new FlushGate(ADMISSION);
  assertFalse(gate.shouldWrite(0));
  gate.staged(clock);
  assert(gate.shouldWrite(0));
  gate.written();
  assertFalse(gate.shouldWrite(0));
});

Deno.test("FlushGate holds ordinary records under manual, for ever", () => {
  const clock = new VirtualClock();
  const gate = new FlushGate(MANUAL);
  for (let n = 0; n < 100; n++) gate.staged(clock);
  assertEquals([gate.shouldWrite(0), gate.shouldWrite(1e9), gate.deadline()], [false, false, null]);
  assertEquals(gate.count, 100);
});

Deno.test("FlushGate never holds a record that bears liveness, under any policy", () => {
  for (const policy of ALL) {
    const clock = new VirtualClock();
    const gate = new FlushGate(policy);
    gate.staged(clock);
    gate.urgent();
    assert(gate.shouldWrite(0), JSON.stringify(policy));
    gate.written();
    assertFalse(gate.shouldWrite(0), JSON.stringify(policy));
    gate.urgent();
    assert(gate.shouldWrite(0), "what is owed goes though nothing is staged yet");
  }
});

Deno.test("FlushGate takes a thousand kicks for one bit", () => {
  const clock = new VirtualClock();
  const gate = new FlushGate(MANUAL);
  gate.staged(clock);
  for (let n = 0; n < 1_000; n++) gate.kick();
  assert(gate.shouldWrite(0));
  gate.written();
  gate.staged(clock);
  assertFalse(gate.shouldWrite(0));
});

Deno.test("FlushGate keeps a kick through a write of a batch that was full", () => {
  const clock = new VirtualClock();
  const gate = new FlushGate(MANUAL);
  gate.staged(clock);
  gate.kick();
  gate.written(); // inline, undecided
  gate.staged(clock);
  assert(gate.shouldWrite(0));
  gate.written();
  gate.staged(clock);
  assertFalse(gate.shouldWrite(0));
});

Deno.test("FlushGate keeps a kick until the write it decided has happened", () => {
  const clock = new VirtualClock();
  const gate = new FlushGate(MANUAL);
  gate.staged(clock);
  gate.kick();
  assert(gate.shouldWrite(0));
  assert(gate.shouldWrite(0), "the lane was parked, nothing has been written");
  gate.written();
  assertFalse(gate.shouldWrite(0));
});

Deno.test("FlushGate spends a kick that finds nothing staged", () => {
  const clock = new VirtualClock();
  const gate = new FlushGate(MANUAL);
  gate.kick();
  assertFalse(gate.shouldWrite(0));
  gate.staged(clock);
  assertFalse(gate.shouldWrite(0));
});

Deno.test("FlushGate lets a kick beat a linger that has not elapsed", () => {
  const clock = new VirtualClock();
  const gate = new FlushGate(LINGER);
  gate.staged(clock);
  assertFalse(gate.shouldWrite(clock.now()));
  gate.kick();
  assert(gate.shouldWrite(clock.now()));
});

Deno.test("FlushGate runs a linger from the oldest staged record, judged by state", () => {
  const clock = new VirtualClock(100);
  const gate = new FlushGate(LINGER);
  assert(gate.staged(clock));
  clock.advance(4);
  assertFalse(gate.staged(clock));
  assertEquals(gate.deadline(), 105);
  assertFalse(gate.shouldWrite(104.9));
  assert(gate.shouldWrite(105));
  assert(gate.shouldWrite(900));
});

Deno.test("FlushGate starts the linger again after a write", () => {
  const clock = new VirtualClock();
  const gate = new FlushGate(LINGER);
  gate.staged(clock);
  clock.advance(5);
  assert(gate.shouldWrite(clock.now()));
  gate.written();
  assertEquals(gate.deadline(), null);
  assert(gate.staged(clock));
  assertEquals(gate.deadline(), 10);
  assertFalse(gate.shouldWrite(9));
  assert(gate.shouldWrite(10));
});

Deno.test("FlushGate has nothing staged, urgent or kicked after a discard", () => {
  for (const policy of ALL) {
    const clock = new VirtualClock();
    const gate = new FlushGate(policy);
    gate.staged(clock);
    gate.urgent();
    gate.kick();
    gate.discarded();
    assertEquals([gate.count, gate.deadline(), gate.shouldWrite(1e9)], [0, null, false]);
    gate.staged(clock);
    gate.urgent();
    gate.kick();
    gate.discarded();
    gate.staged(clock);
    assertEquals(gate.shouldWrite(0), policy === ADMISSION);
  }
});

Deno.test("FlushGate reads the clock only for the first record of a linger", () => {
  let reads = 0;
  const clock = { now: () => ++reads };
  for (const policy of ALL) {
    const gate = new FlushGate(policy);
    for (let n = 0; n < 50; n++) gate.staged(clock);
  }
  assertEquals(reads, 1);
});
