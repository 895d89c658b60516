import { assertEquals } from "@std/assert";
import { Router } from "../../src/routing/router.ts";
import { type Worker, WorkerTable } from "../../src/routing/worker_table.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const id = (number: number) => `00000000-0000-4000-8000-${number.toString().padStart(12, "0")}`;
const card = (name: string) => ({ id: name, created: 0, ownedBy: "t" });

function setUp(maxWorkers = 10): { clock: VirtualClock; table: WorkerTable; router: Router; gone: string[] } {
  const clock = new VirtualClock();
  const gone: string[] = [];
  const onGone = (worker: Worker) => gone.push(worker.instanceId);
  const table = new WorkerTable({ clock, joinIntervalMs: 1_000, lostGraceMs: 500, maxWorkers, onGone });
  return { clock, table, router: new Router(table), gone };
}

function join(table: WorkerTable, number: number, models = ["m"], capacity = 0): Worker {
  return table.join({ instanceId: id(number), models: models.map(card), engine: "", capacity })!;
}

Deno.test("Router takes the worker with the least in flight, and equals in turn", () => {
  const { table, router } = setUp();
  const workers = [1, 2, 3].map((number) => join(table, number));
  const picked = [0, 0, 0];
  for (let i = 0; i < 9; i++) picked[workers.indexOf(router.pick("m") as Worker)]!++;
  assertEquals(picked, [3, 3, 3]);
  workers[0]!.inFlight = 2;
  workers[1]!.inFlight = 1;
  workers[2]!.inFlight = 2;
  for (let i = 0; i < 5; i++) assertEquals(router.pick("m"), workers[1]);
  assertEquals(router.pick("m", [workers[1]!]) === workers[1], false);
  table.close();
});

Deno.test("Router says why there is nobody", () => {
  const { table, router } = setUp();
  assertEquals(router.pick("m"), "unknown_model");
  const worker = join(table, 1, ["m"], 2);
  assertEquals(router.pick("other"), "unknown_model");
  assertEquals(router.pick("m", [worker]), "all_tried");
  worker.inFlight = 2;
  assertEquals(router.pick("m"), "all_busy");
  table.markLost(worker, "reset");
  assertEquals(router.pick("m"), "unavailable");
  assertEquals(router.pick("m", [worker]), "all_tried");
  table.close();
});

Deno.test("WorkerTable lets go of a worker that was silent for three intervals", () => {
  const { clock, table, gone } = setUp();
  join(table, 1);
  join(table, 2);
  for (let i = 0; i < 5; i++) {
    clock.advance(900);
    join(table, 2);
  }
  assertEquals(gone, [id(1)]);
  assertEquals(table.size, 1);
  clock.advance(2_900);
  assertEquals(table.isServing, true);
  clock.advance(1_000);
  assertEquals(gone, [id(1), id(2)]);
  assertEquals([table.size, table.isServing, clock.pendingTimers], [0, false, 0]);
});

Deno.test("WorkerTable takes a lost worker out at once, forgets it after the grace, takes it back before", () => {
  const { clock, table, gone } = setUp();
  const worker = join(table, 1);
  table.markLost(worker, "reset");
  assertEquals([table.isServing, table.models(), table.size], [false, [], 1]);
  clock.advance(400);
  join(table, 1);
  assertEquals([worker.state, table.isServing], ["ready", true]);
  clock.advance(400);
  assertEquals(gone, []);
  table.markLost(worker, "reset");
  table.markFound(worker);
  assertEquals(worker.state, "ready");
  table.markLost(worker, "reset");
  clock.advance(600);
  assertEquals([gone, worker.state], [[id(1)], "gone"]);
  table.markFound(worker);
  table.markDraining(worker);
  assertEquals(worker.state, "gone");
});

Deno.test("WorkerTable keeps a draining worker until its last stream has ended, however silent", () => {
  const { clock, table, gone } = setUp();
  const worker = join(table, 1);
  worker.inFlight = 1;
  table.markDraining(worker);
  assertEquals(table.serving("m").length, 0);
  clock.advance(60_000);
  assertEquals(gone, []);
  worker.inFlight = 0;
  clock.advance(1_000);
  assertEquals(gone, [id(1)]);
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("WorkerTable follows what a worker says it serves, and takes no more than its limit", () => {
  const { table } = setUp(2);
  join(table, 1, ["a", "b", "a"]);
  assertEquals(table.serving("a").length, 1);
  join(table, 1, ["b", "c"]);
  assertEquals(table.models().map((model) => model.id), ["b", "c"]);
  join(table, 2, ["b"]);
  assertEquals(table.serving("b").length, 2);
  assertEquals(table.join({ instanceId: id(3), models: [], engine: "", capacity: 0 }), null);
  assertEquals([table.knows("c"), table.knows("a")], [true, false]);
  table.close();
  assertEquals(table.join({ instanceId: id(1), models: [], engine: "", capacity: 0 }), null);
});
