import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import type { Worker } from "../../src/routing/worker.ts";
import { MAX_MODEL_NAMES, WorkerTable } from "../../src/routing/worker_table.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const id = (number: number) => `00000000-0000-4000-8000-${number.toString().padStart(12, "0")}`;
const card = (name: string) => ({ id: name, created: 0, ownedBy: "t" });

function newTable(onChange: () => void = () => {}): WorkerTable {
  return new WorkerTable({
    clock: new VirtualClock(),
    joinIntervalMs: 1_000,
    lostGraceMs: 500,
    maxWorkers: 4_096,
    onChange,
  });
}

function offer(table: WorkerTable, number: number, models: readonly string[]): Worker | null {
  return table.join({
    instanceId: id(number),
    models: models.map(card),
    engine: "",
    capacity: 0,
    virtualWorkers: 1,
  });
}

/** The index written the plain way: everything looked at anew. */
function naive(table: WorkerTable, model: string): { ready: string[]; knows: boolean; models: string[] } {
  const all = [...table.workers()];
  const ready = all.filter((worker) => worker.state === "ready");
  const names = (workers: readonly Worker[]) =>
    workers.flatMap((worker) => worker.info.models.map((item) => item.id));
  return {
    ready: ready.filter((worker) => names([worker]).includes(model)).map((worker) => worker.instanceId)
      .toSorted(),
    knows: names(all).includes(model),
    models: [...new Set(names(ready))].toSorted(),
  };
}

Deno.test("WorkerTable answers as if it looked at every worker, whatever comes and goes", () => {
  const name = fc.constantFrom("a", "b", "c", "d");
  const step = fc.record({
    what: fc.constantFrom("join", "join", "join", "draining", "lost", "found", "remove"),
    worker: fc.integer({ min: 1, max: 5 }),
    models: fc.array(name, { maxLength: 4 }),
  });
  fc.assert(fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
    const table = newTable();
    for (const { what, worker: number, models } of steps) {
      const worker = table.worker(id(number));
      if (what === "join") offer(table, number, models);
      else if (worker === undefined) continue;
      else if (what === "draining") table.markDraining(worker);
      else if (what === "lost") table.markLost(worker, "test");
      else if (what === "found") table.markFound(worker);
      else table.remove(worker, "test");
      for (const model of ["a", "b", "c", "d"]) {
        const expected = naive(table, model);
        assertEquals({
          ready: table.serving(model).map((item) => item.instanceId).toSorted(),
          knows: table.knows(model),
          models: table.models().map((item) => item.id),
        }, expected);
        assertEquals(table.isServing, expected.models.length > 0);
      }
    }
    table.close();
    assertEquals([table.isServing, table.models()], [false, []]);
  }));
});

Deno.test("WorkerTable takes no more names of models than it can list, and room comes back", () => {
  const table = newTable();
  const per = 256;
  const many = (number: number) => Array.from({ length: per }, (_, i) => `m${number}-${i}`);
  for (let number = 1; number <= MAX_MODEL_NAMES / per; number++) assert(offer(table, number, many(number)));
  assertEquals(offer(table, 9_000, ["one more"]), null);
  assertEquals(offer(table, 1, [...many(1), "one more"]), null);
  assertEquals(table.serving("m1-0").length, 1);
  // Who offers what is there already costs no name.
  const same = offer(table, 9_001, many(2));
  assertEquals(table.serving("m2-0").length, 2);
  table.remove(table.worker(id(1))!, "test");
  assert(offer(table, 9_000, ["one more"]));
  table.markLost(same!, "test");
  assertEquals(table.serving("m2-0").length, 1);
  table.close();
});

Deno.test("WorkerTable says of each change that it was one, and of a join that changes nothing, nothing", () => {
  let changes = 0;
  const table = newTable(() => changes++);
  const worker = offer(table, 1, ["a"])!;
  assertEquals(changes, 1);
  offer(table, 1, ["a"]);
  assertEquals(changes, 1);
  offer(table, 1, ["b"]);
  assertEquals(changes, 2);
  table.markLost(worker, "test");
  assertEquals(changes, 3);
  offer(table, 1, ["b"]);
  assertEquals(changes, 4);
  table.remove(worker, "test");
  assertEquals(changes, 5);
  table.close();
});
