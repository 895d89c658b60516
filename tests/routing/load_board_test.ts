import { assertEquals } from "@std/assert";
import { Load, LoadBoard } from "../../src/routing/load_board.ts";

function boardsOf(workers: number, shards: number): LoadBoard[] {
  const memory = LoadBoard.allocate(workers, shards);
  return Array.from({ length: shards }, (_, shard) => new LoadBoard(memory, shards, shard));
}

Deno.test("LoadBoard adds up what all shards count for a worker", () => {
  const [a, b] = boardsOf(4, 2);
  const row = a!.enter(0xdead_beef_1234_5678n);
  assertEquals(b!.enter(0xdead_beef_1234_5678n), row);
  a!.add(row, Load.requests, 2);
  b!.add(row, Load.requests, 3);
  b!.add(row, Load.decodeBlocks, 7);
  b!.add(row, Load.requests, -1);
  assertEquals([a!.total(row, Load.requests), b!.total(row, Load.requests)], [4, 4]);
  assertEquals([a!.total(row, Load.decodeBlocks), a!.total(row, Load.prefillBlocks)], [7, 0]);
});

Deno.test("LoadBoard keeps a row until the last shard has left it, and counts nothing of a shard that has", () => {
  const [a, b] = boardsOf(1, 2);
  const row = a!.enter(1n);
  b!.enter(1n);
  a!.add(row, Load.requests, 5);
  a!.leave(row);
  assertEquals(b!.total(row, Load.requests), 0);
  assertEquals(a!.enter(2n), -1);
  b!.leave(row);
  assertEquals(a!.enter(2n), row);
});

Deno.test("LoadBoard without a row left counts nothing and says nothing", () => {
  const [board] = boardsOf(1, 1);
  board!.enter(1n);
  const row = board!.enter(2n);
  assertEquals(row, -1);
  board!.add(row, Load.requests, 1);
  board!.leave(row);
  assertEquals(board!.total(row, Load.requests), 0);
});

Deno.test("LoadBoard of a shard that starts again forgets what its predecessor counted", () => {
  const memory = LoadBoard.allocate(2, 2);
  const first = new LoadBoard(memory, 2, 0);
  const other = new LoadBoard(memory, 2, 1);
  const row = first.enter(1n);
  other.enter(1n);
  first.add(row, Load.requests, 9);
  other.add(row, Load.requests, 1);
  const again = new LoadBoard(memory, 2, 0);
  assertEquals(again.total(row, Load.requests), 1);
  assertEquals(again.enter(1n), row);
});

Deno.test("LoadBoard takes over a lock whose holder was cut off", () => {
  const memory = LoadBoard.allocate(1, 1);
  const board = new LoadBoard(memory, 1, 0);
  new Int32Array(memory)[0] = 1;
  assertEquals(board.enter(1n), 0);
  assertEquals(new Int32Array(memory)[0], 0);
});

Deno.test("LoadBoard gives shards that enter at the same time one row per worker", async () => {
  const shards = 3;
  const workers = 200;
  const memory = LoadBoard.allocate(workers, shards);
  const url = new URL("../support/load_board_isolate.ts", import.meta.url).href;
  const isolates = Array.from({ length: shards }, () => new Worker(url, { type: "module" }));
  try {
    await Promise.all(isolates.map((isolate) => new Promise((done) => isolate.onmessage = done)));
    const rows = await Promise.all(
      isolates.map((isolate, shard) =>
        new Promise<[number, number][]>((done) => {
          isolate.onmessage = ({ data }) => done(data);
          const ids = Array.from({ length: workers }, (_, i) => i + 1);
          isolate.postMessage({ memory, shards, shard, ids: shard % 2 === 0 ? ids : ids.reverse() });
        })
      ),
    );
    const byId = rows.map((pairs) => new Map(pairs));
    for (let id = 1; id <= workers; id++) {
      assertEquals(new Set(byId.map((map) => map.get(id))).size, 1, `worker ${id}`);
    }
    assertEquals(new Set(byId[0]!.values()).size, workers);
  } finally {
    for (const isolate of isolates) isolate.terminate();
  }
});
