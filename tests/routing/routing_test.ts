import { assertEquals } from "@std/assert";
import { createLogger } from "../../src/observe/log.ts";
import { Load, LoadBoard } from "../../src/routing/load_board.ts";
import { Placement } from "../../src/routing/placement.ts";
import { LeastLoaded } from "../../src/routing/policies/least_loaded.ts";
import { type NoWorker, Router } from "../../src/routing/router.ts";
import type { Worker } from "../../src/routing/worker.ts";
import { WorkerTable } from "../../src/routing/worker_table.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const id = (number: number) => `00000000-0000-4000-8000-${number.toString().padStart(12, "0")}`;
const card = (name: string) => ({ id: name, created: 0, ownedBy: "t" });

function setUp(maxWorkers = 10): { clock: VirtualClock; table: WorkerTable; router: Router; gone: string[] } {
  const clock = new VirtualClock();
  const gone: string[] = [];
  const onGone = (worker: Worker) => gone.push(worker.instanceId);
  const table = new WorkerTable({ clock, joinIntervalMs: 1_000, lostGraceMs: 500, maxWorkers, onGone });
  return { clock, table, router: new Router(table, new LeastLoaded(table.board)), gone };
}

/** The worker that a request is placed on, or why on none; it counts for nothing afterwards. */
function pick(router: Router, model: string, tried: readonly Worker[] = []): Worker | NoWorker {
  const placement = router.place({ model, blocks: null, wanted: null }, tried);
  if (typeof placement === "string") return placement;
  placement.release();
  return placement.worker;
}

/** Gives a worker requests that do not end. */
function keepBusy(table: WorkerTable, worker: Worker, requests: number): void {
  for (let i = 0; i < requests; i++) new Placement(worker.virtual[0]!, table.board, null);
}

function join(table: WorkerTable, number: number, models = ["m"], capacity = 0): Worker {
  return table.join({
    instanceId: id(number),
    models: models.map(card),
    engine: "",
    capacity,
    virtualWorkers: 1,
  })!;
}

Deno.test("Router takes the worker with the least in flight, and equals in turn", () => {
  const { table, router } = setUp();
  const workers = [1, 2, 3].map((number) => join(table, number));
  const picked = [0, 0, 0];
  for (let i = 0; i < 9; i++) picked[workers.indexOf(pick(router, "m") as Worker)]!++;
  assertEquals(picked, [3, 3, 3]);
  [2, 1, 2].forEach((requests, i) => keepBusy(table, workers[i]!, requests));
  for (let i = 0; i < 5; i++) assertEquals(pick(router, "m"), workers[1]);
  assertEquals(pick(router, "m", [workers[1]!]) === workers[1], false);
  table.close();
});

Deno.test("Placement counts from the choice to its release, once, and nothing for a worker that has gone", () => {
  const { table, router } = setUp();
  const worker = join(table, 1);
  const placement = router.place({ model: "m", blocks: null, wanted: null }) as Placement;
  const { row } = worker.virtual[0]!;
  const requests = () => table.board.total(row, Load.requests);
  assertEquals([worker.inFlight, requests()], [1, 1]);
  placement.prefilled();
  placement.release();
  placement.release();
  assertEquals([worker.inFlight, requests()], [0, 0]);
  const late = router.place({ model: "m", blocks: null, wanted: null }) as Placement;
  table.remove(worker, "gone");
  const successor = join(table, 2);
  assertEquals(successor.virtual[0]!.row, row);
  late.release();
  assertEquals([worker.inFlight, requests()], [0, 0]);
  table.close();
});

Deno.test("Router takes a worker for full when all shards together have filled it", () => {
  const memory = LoadBoard.allocate(4, 2);
  const clock = new VirtualClock();
  const tables = [0, 1].map((shard) =>
    new WorkerTable({
      clock,
      joinIntervalMs: 1_000,
      lostGraceMs: 500,
      maxWorkers: 4,
      board: new LoadBoard(memory, 2, shard),
    })
  );
  const [mine, others] = tables.map((table) => join(table, 1, ["m"], 2));
  const router = new Router(tables[0]!, new LeastLoaded(tables[0]!.board));
  keepBusy(tables[1]!, others!, 1);
  assertEquals(pick(router, "m"), mine);
  keepBusy(tables[1]!, others!, 1);
  assertEquals(pick(router, "m"), "all_busy");
  for (const table of tables) table.close();
});

Deno.test("Router places requests on the logical workers of a worker, which share its limit", () => {
  const { table, router } = setUp();
  const info = { instanceId: id(1), models: [card("m")], engine: "", capacity: 4, virtualWorkers: 3 };
  const worker = table.join(info)!;
  assertEquals(worker.virtual.map(({ name }) => name), [0, 1, 2].map((index) => `${id(1)}/${index}`));
  const placed = Array.from({ length: 4 }, () => router.place({ model: "m", blocks: null, wanted: null }));
  assertEquals(placed.map((placement) => (placement as Placement).target.index), [0, 1, 2, 0]);
  assertEquals([worker.inFlight, pick(router, "m")], [4, "all_busy"]);
  for (const placement of placed) (placement as Placement).release();
  assertEquals(worker.virtual.map(({ row }) => table.board.total(row, Load.requests)), [0, 0, 0]);
  table.close();
});

Deno.test("Router says why there is nobody", () => {
  const { table, router } = setUp();
  assertEquals(pick(router, "m"), "unavailable");
  const worker = join(table, 1, ["m"], 2);
  assertEquals(pick(router, "other"), "unknown_model");
  assertEquals(pick(router, "m", [worker]), "all_tried");
  keepBusy(table, worker, 2);
  assertEquals(pick(router, "m"), "all_busy");
  table.markLost(worker, "reset");
  assertEquals(pick(router, "m"), "unavailable");
  assertEquals(pick(router, "m", [worker]), "all_tried");
  table.close();
});

for (const way of ["is lost", "drains", "is silent", "offers it no more"] as const) {
  Deno.test(`Router calls a model unavailable, not unknown, when its last worker ${way}, for a while`, () => {
    const { clock, table, router } = setUp();
    join(table, 1, ["other"]);
    const worker = join(table, 2, ["m"]);
    const keepOther = (ms: number) => {
      for (let left = ms; left > 0; left -= 500) {
        clock.advance(500);
        join(table, 1, ["other"]);
      }
    };
    if (way === "is lost") table.markLost(worker, "reset");
    else if (way === "drains") table.markDraining(worker);
    else if (way === "offers it no more") join(table, 2, ["other"]);
    keepOther(4_000);
    assertEquals([table.size, table.serving("m").length], [1, 0]);
    assertEquals(table.models().map((model) => model.id), ["other"]);
    assertEquals([pick(router, "m"), pick(router, "never")], ["unavailable", "unknown_model"]);
    keepOther(300_000);
    assertEquals(pick(router, "m"), "unknown_model");
    table.close();
  });
}

const ENDS = [
  { name: "that drains", isDraining: true, inFlight: 0, level: "info", event: "worker_disconnected" },
  {
    name: "that drains with streams under way",
    isDraining: true,
    inFlight: 1,
    level: "warn",
    event: "worker_lost",
  },
  { name: "that said nothing", isDraining: false, inFlight: 0, level: "warn", event: "worker_lost" },
];
for (const { name, isDraining, inFlight, level, event } of ENDS) {
  Deno.test(`WorkerTable logs the lost connection of a worker ${name} at level ${level}`, () => {
    const lines: string[] = [];
    const log = createLogger({ format: "json", write: (text) => lines.push(text) });
    const table = new WorkerTable({
      clock: new VirtualClock(),
      log,
      joinIntervalMs: 1_000,
      lostGraceMs: 500,
      maxWorkers: 1,
    });
    const worker = join(table, 1);
    worker.inFlight = inFlight;
    if (isDraining) table.markDraining(worker);
    table.markLost(worker, "closed by the peer");
    const { level: gotLevel, event: gotEvent } = JSON.parse(lines.at(-1)!);
    assertEquals([gotLevel, gotEvent], [level, event]);
    table.close();
  });
}

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
  assertEquals(
    table.join({ instanceId: id(3), models: [], engine: "", capacity: 0, virtualWorkers: 1 }),
    null,
  );
  assertEquals([table.knows("c"), table.knows("a")], [true, false]);
  table.close();
  assertEquals(
    table.join({ instanceId: id(1), models: [], engine: "", capacity: 0, virtualWorkers: 1 }),
    null,
  );
});
