import { VirtualClock } from "./virtual_clock.ts";

function expectEqual(actual: unknown, expected: unknown): void {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`Expected ${b}, got ${a}`);
}

Deno.test("VirtualClock fires timers by due time, then by the order they were set", () => {
  const clock = new VirtualClock();
  const seen: string[] = [];
  for (const [name, ms] of [["c", 30], ["a1", 10], ["b", 20], ["a2", 10]] as const) {
    clock.setTimer(() => seen.push(`${name}@${clock.now()}`), ms);
  }
  const gone = clock.setTimer(() => seen.push("never"), 5);
  clock.clearTimer(gone);
  clock.clearTimer(gone);
  clock.advance(20);
  expectEqual(seen, ["a1@10", "a2@10", "b@20"]);
  expectEqual([clock.now(), clock.pendingTimers], [20, 1]);
  expectEqual(clock.runUntilIdle(), 10);
  expectEqual(seen.at(-1), "c@30");
});

Deno.test("VirtualClock runs deferred callbacks after the burst, before the next timer", () => {
  const clock = new VirtualClock();
  const seen: string[] = [];
  clock.setTimer(() => {
    clock.defer(() => seen.push("deferred"));
    seen.push("timer1");
  }, 1);
  clock.setTimer(() => seen.push("timer2"), 1);
  clock.advance(1);
  expectEqual(seen, ["timer1", "deferred", "timer2"]);
});

Deno.test("VirtualClock.advanceAsync lets promises settle between timers", async () => {
  const clock = new VirtualClock();
  const seen: string[] = [];
  clock.setTimer(() => void Promise.resolve().then(() => seen.push("promise")), 1);
  clock.setTimer(() => seen.push("timer"), 2);
  await clock.advanceAsync(5);
  expectEqual(seen, ["promise", "timer"]);
  expectEqual(clock.now(), 5);
});

Deno.test("VirtualClock fires many random timers in order", () => {
  const clock = new VirtualClock();
  const fired: number[] = [];
  let seed = 7;
  for (let i = 0; i < 2_000; i++) {
    seed = (seed * 1103515245 + 12345) & 0x7fffffff;
    clock.setTimer(() => fired.push(clock.now()), seed % 500);
  }
  clock.runUntilIdle();
  expectEqual(fired.length, 2_000);
  expectEqual(fired, fired.toSorted((a, b) => a - b));
});
