import { assertEquals } from "@std/assert";
import type { Clock } from "../../src/clock.ts";
import type { WorkerInfo } from "../../src/routing/worker.ts";
import { WorkerTable } from "../../src/routing/worker_table.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const A = "00000000-0000-4000-8000-00000000000a";
const B = "00000000-0000-4000-8000-00000000000b";

/** A table on a clock that can jump, as it does for a process that was stopped. */
function setUp() {
  const virtual = new VirtualClock();
  let skippedMs = 0;
  const clock: Clock = {
    now: () => virtual.now() + skippedMs,
    setTimer: (callback, ms) => virtual.setTimer(callback, ms),
    clearTimer: (handle) => virtual.clearTimer(handle),
    defer: (callback) => virtual.defer(callback),
  };
  const table = new WorkerTable({ clock, joinIntervalMs: 2_000, lostGraceMs: 500, maxWorkers: 8 });
  const info = (id: string): WorkerInfo => ({
    instanceId: id,
    models: [{ id: "m", created: 0, ownedBy: "test" }],
    engine: "mock",
    capacity: 0,
    virtualWorkers: 1,
  });
  return { virtual, table, info, freeze: (ms: number) => void (skippedMs += ms) };
}

Deno.test("WorkerTable takes the time in which its own process stood still for nobody's silence", () => {
  const { virtual, table, info, freeze } = setUp();
  table.join(info(A));
  virtual.advance(1_900);
  table.join(info(A));
  freeze(60_000);
  virtual.advance(2_000);
  assertEquals(table.size, 1, "removed before it could be heard");
  table.join(info(A));
  for (let i = 0; i < 5; i++) {
    virtual.advance(1_900);
    table.join(info(A));
  }
  assertEquals(table.serving("m").length, 1);
  // Real silence still counts, and from where it began.
  virtual.advance(9_000);
  assertEquals(table.size, 0);
  table.close();
});

Deno.test("WorkerTable removes a worker that is silent behind a standstill, and keeps no lost one longer for it", () => {
  const { virtual, table, info, freeze } = setUp();
  table.join(info(A));
  const lost = table.join(info(B))!;
  virtual.advance(1_000);
  freeze(60_000);
  table.markLost(lost, "its connection closed meanwhile");
  virtual.advance(700);
  assertEquals([table.worker(B), table.worker(A)?.state], [undefined, "ready"]);
  virtual.advance(8_500);
  assertEquals(table.size, 0);
  table.close();
});
