import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { KeyMemory, PLACES } from "../../../src/frontend/keys/key_memory.ts";

const MINUTE_NS = 60_000_000_000n;
const START_NS = 1_800_000_000_000_000_000n;
const msToNs = (ms: number) => BigInt(ms) * 1_000_000n;

/** A token bucket as one would write it down, in steps of its own unit: requests times nanoseconds. */
class NaiveBucket {
  #filled: bigint;
  #at: bigint;
  readonly rpm: bigint;
  constructor(rpm: bigint, now: bigint) {
    this.rpm = rpm;
    this.#filled = rpm * (MINUTE_NS / rpm);
    this.#at = now;
  }
  take(now: bigint): boolean {
    const step = MINUTE_NS / this.rpm;
    const full = this.rpm * step;
    this.#filled = this.#filled + (now - this.#at) > full ? full : this.#filled + (now - this.#at);
    this.#at = now;
    if (this.#filled < step) return false;
    this.#filled -= step;
    return true;
  }
}

Deno.test("KeyMemory.takeTurn allows what a token bucket allows", () => {
  const gap = fc.oneof(fc.constant(0), fc.nat(200), fc.nat(90_000));
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1_000 }), fc.array(gap, { maxLength: 300 }), (rpm, gaps) => {
      const memory = new KeyMemory(1);
      const bucket = new NaiveBucket(BigInt(rpm), START_NS);
      let now = START_NS;
      for (const ms of gaps) {
        now += msToNs(ms);
        assertEquals(memory.takeTurn(3, rpm, now).isAllowed, bucket.take(now));
      }
    }),
  );
});

Deno.test("KeyMemory.takeTurn says what is left, when there is more and when there is all", () => {
  const memory = new KeyMemory(1);
  const take = (ms: number) => memory.takeTurn(0, 60, START_NS + msToNs(ms));
  assertEquals(take(0), { isAllowed: true, remaining: 59, resetMs: 1_000, waitMs: 0 });
  for (let i = 0; i < 58; i++) take(0);
  assertEquals(take(0), { isAllowed: true, remaining: 0, resetMs: 60_000, waitMs: 1_000 });
  assertEquals(take(0), { isAllowed: false, remaining: 0, resetMs: 60_000, waitMs: 1_000 });
  assertEquals(take(999), { isAllowed: false, remaining: 0, resetMs: 59_001, waitMs: 1 });
  assertEquals(take(1_000), { isAllowed: true, remaining: 0, resetMs: 60_000, waitMs: 1_000 });
  assertEquals(take(100_000), { isAllowed: true, remaining: 59, resetMs: 1_000, waitMs: 0 });
});

Deno.test("KeyMemory.takeTurn keeps nobody out for more than a minute when the clock is set back", () => {
  const memory = new KeyMemory(1);
  for (let i = 0; i < 10; i++) memory.takeTurn(0, 10, START_NS);
  const back = START_NS - msToNs(3_600_000);
  assertEquals(memory.takeTurn(0, 10, back).isAllowed, false);
  assertEquals(memory.takeTurn(0, 10, back).waitMs, 6_000);
  assertEquals(memory.takeTurn(0, 10, back + msToNs(6_000)).isAllowed, true);
  assertEquals(memory.takeTurn(0, 10, back + msToNs(66_000)).remaining, 9);
});

Deno.test("KeyMemory.takeTurn of one place is nothing to another, and clear gives the whole rate", () => {
  const memory = new KeyMemory(2);
  assertEquals(memory.takeTurn(0, 1, START_NS).isAllowed, true);
  assertEquals(memory.takeTurn(PLACES - 1, 1, START_NS).isAllowed, true);
  assertEquals(memory.takeTurn(0, 1, START_NS).isAllowed, false);
  memory.clear(0);
  assertEquals(memory.takeTurn(0, 1, START_NS).isAllowed, true);
  assertEquals(memory.takeTurn(PLACES - 1, 1, START_NS).isAllowed, false);
});

Deno.test("KeyMemory.enter holds its limit over all columns, and forget frees one of them", () => {
  const memory = new KeyMemory(3);
  assertEquals([0, 1, 2, 0].map((column) => memory.enter(5, column, 3)), [true, true, true, false]);
  assertEquals([memory.running(5), memory.runningIn(5, 0), memory.running(4)], [3, 1, 0]);
  memory.leave(5, 1);
  assertEquals([memory.enter(5, 0, 3), memory.enter(5, 2, 3)], [true, false]);
  assertEquals([memory.enter(5, 2, 0), memory.running(5)], [true, 4]);
  memory.forget(0);
  assertEquals([memory.running(5), memory.runningIn(5, 2)], [2, 2]);
});

Deno.test("KeyMemory is exact when isolates race: as many turns as the rate, never more under way than the limit", async () => {
  const memory = new KeyMemory(4);
  const [rpm, limit, tries] = [1_000, 3, 20_000];
  const module = new URL("./key_memory_racer.ts", import.meta.url).href;
  const racers = [0, 1, 2, 3].map((column) => {
    const racer = new Worker(module, { type: "module" });
    const result = new Promise<{ turns: number; most: number }>((resolve, reject) => {
      racer.onmessage = ({ data }) =>
        data === "loaded"
          ? racer.postMessage({ shared: memory.shared, column, rpm, limit, tries })
          : resolve(data);
      racer.onerror = (event) => {
        event.preventDefault();
        reject(new Error(event.message));
      };
    });
    return { racer, result };
  });
  try {
    const results = await Promise.all(racers.map(({ result }) => result));
    assertEquals(results.reduce((sum, { turns }) => sum + turns, 0), rpm);
    // A racer sees those that look at the same time and will be refused: at most one for each other column.
    for (const { most } of results) assert(most > 0 && most <= limit, `${most}`);
    assertEquals(memory.running(0), 0);
  } finally {
    for (const { racer } of racers) racer.terminate();
  }
});
