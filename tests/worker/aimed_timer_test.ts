import { assertEquals } from "@std/assert";
import { AimedTimer, MAX_PAUSE_MS } from "../../src/worker/engines/aimed_timer.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

/** A clock of which every timer comes late by a fixed time. */
function lateClock(lateMs: number) {
  const inner = new VirtualClock();
  const waits: number[] = [];
  const clock = {
    now: () => inner.now(),
    setTimer: (callback: () => void, ms: number) => {
      waits.push(ms);
      return inner.setTimer(callback, ms + lateMs);
    },
    clearTimer: (handle: unknown) => inner.clearTimer(handle),
    defer: (callback: () => void) => inner.defer(callback),
  };
  return { inner, clock, waits };
}

Deno.test("AimedTimer comes within half a millisecond when timers are as late as the runtime's", () => {
  for (const at of [0, 1.5, 2, 7.3, 19.9, 20, 20.4]) {
    const { inner, clock, waits } = lateClock(1.2);
    const came: number[] = [];
    new AimedTimer(clock, () => came.push(inner.now())).aim(at);
    inner.advance(50);
    assertEquals(came.length, 1, `${at}`);
    // The shortest timer comes after 2.2 ms here.
    const best = at === 0 ? 1.2 : Math.max(at, 2.2);
    assertEquals(Math.abs(came[0]! - best) <= 0.5, true, `${came[0]} for ${at} after ${waits}`);
  }
});

Deno.test("AimedTimer waits on when its timer comes too early", () => {
  const { inner, clock } = lateClock(0);
  const came: number[] = [];
  new AimedTimer(clock, () => came.push(inner.now())).aim(10);
  inner.advance(50);
  assertEquals(came, [10]);
});

Deno.test("AimedTimer that may pause comes exactly, and never pauses for long", () => {
  for (const lateMs of [0, 0.3, 1.2]) {
    for (const at of [1.5, 3, 19.9, 20, 20.4]) {
      const { inner, clock } = lateClock(lateMs);
      let paused = 0;
      const now = () => inner.now() + paused;
      const came: number[] = [];
      const pause = (ms: number) => {
        assertEquals(ms > 0 && ms <= MAX_PAUSE_MS, true, `a pause of ${ms} ms`);
        paused += ms;
      };
      new AimedTimer({ ...clock, now }, () => came.push(now()), pause).aim(at);
      inner.advance(50);
      const first = 1 + lateMs; // of the shortest timer
      assertEquals(came.map((time) => time.toFixed(6)), [Math.max(at, first).toFixed(6)], `${lateMs} late`);
    }
  }
});

Deno.test("AimedTimer follows the last time it was given, and none", () => {
  const { inner, clock } = lateClock(0);
  let came = 0;
  const timer = new AimedTimer(clock, () => came++);
  timer.aim(10);
  timer.aim(30);
  inner.advance(20);
  assertEquals(came, 0);
  timer.aim(25);
  inner.advance(5);
  assertEquals(came, 1);
  timer.aim(40);
  timer.aim(Infinity);
  inner.advance(50);
  assertEquals([came, inner.pendingTimers], [1, 0]);
});
