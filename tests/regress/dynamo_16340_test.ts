/**
 * ai-dynamo/dynamo#16340: to take a worker in, every record of a removed one that had not expired was looked at again, so
 * joining got slower with each worker that had ever left. Fails when a join looks at anything of 10,000 removed workers.
 */
import { assertEquals } from "@std/assert";
import type { WorkerInfo } from "../../src/routing/worker.ts";
import { WorkerTable } from "../../src/routing/worker_table.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

Deno.test("WorkerTable takes a worker in without a look at those that have left", () => {
  const clock = new VirtualClock();
  const table = new WorkerTable({ clock, joinIntervalMs: 2_000, lostGraceMs: 500, maxWorkers: 4_096 });
  let reads = 0;
  const info = (number: number): WorkerInfo => ({
    instanceId: `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`,
    get models() {
      reads++;
      return [{ id: "m", created: 0, ownedBy: "test" }];
    },
    engine: "mock",
    capacity: 0,
    virtualWorkers: 1,
  });
  for (let number = 0; number < 10_000; number++) {
    const worker = table.join(info(number))!;
    if (number % 2 === 0) {
      table.remove(worker, "left");
    } else {
      table.markLost(worker, "lost");
      clock.advance(600); // its grace
    }
  }
  assertEquals([table.size, table.serving("m").length], [0, 0]);
  reads = 0;
  table.join(info(10_000));
  const first = reads;
  assertEquals(table.serving("m").length, 1);
  // The very same join with nobody removed before costs the same.
  const fresh = new WorkerTable({ clock, joinIntervalMs: 2_000, lostGraceMs: 500, maxWorkers: 4_096 });
  reads = 0;
  fresh.join(info(0));
  assertEquals(first, reads);
  table.close();
  fresh.close();
  assertEquals(clock.pendingTimers, 0);
});
