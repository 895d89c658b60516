import { assert, assertEquals } from "@std/assert";
import { type BlockHashes, hashBlocks } from "../../../src/routing/kv/block_hashes.ts";
import type { CacheView } from "../../../src/routing/kv/cache_view.ts";
import { Load, LoadBoard } from "../../../src/routing/load_board.ts";
import { createPolicy, type RouterMode } from "../../../src/routing/policies/mod.ts";
import type { Policy, RouteRequest } from "../../../src/routing/policies/policy.ts";
import { type VirtualWorker, Worker } from "../../../src/routing/worker.ts";
import { seededRandom } from "../../../transports/memory/random.ts";

const WEIGHTS = { overlapCredit: 1, prefillLoadScale: 1, temperature: 0 };

/** Caches with the overlaps that a test sets, by worker. */
class FixedCaches implements CacheView {
  readonly blocks = new Map<VirtualWorker, number>();
  readonly placements: VirtualWorker[] = [];

  overlaps(_request: RouteRequest, candidates: readonly VirtualWorker[], into: Uint32Array): void {
    candidates.forEach((worker, i) => into[i] = this.blocks.get(worker) ?? 0);
  }

  placed(worker: VirtualWorker): void {
    this.placements.push(worker);
  }
}

function setUp(count: number): { board: LoadBoard; caches: FixedCaches; workers: VirtualWorker[] } {
  const board = new LoadBoard(LoadBoard.allocate(count, 1), 1, 0);
  const workers = Array.from({ length: count }, (_, i) => {
    const worker = new Worker({
      instanceId: `worker-${i}`,
      models: [],
      engine: "",
      capacity: 0,
      virtualWorkers: 1,
    }, 0).virtual[0]!;
    worker.row = board.enter(BigInt(i + 1));
    return worker;
  });
  return { board, caches: new FixedCaches(), workers };
}

function policyOf(mode: RouterMode, parts: ReturnType<typeof setUp>, temperature = 0): Policy {
  const { board, caches } = parts;
  return createPolicy(mode, { board, caches, weights: { ...WEIGHTS, temperature }, random: seededRandom(7) });
}

function request(blocks: BlockHashes | null = null, wanted: string | null = null): RouteRequest {
  return { model: "m", blocks, wanted };
}

function blocksOf(count: number): BlockHashes {
  return hashBlocks(new Uint32Array(count), 1);
}

/** How often each worker is chosen, of `times`. */
function counts(
  policy: Policy,
  workers: readonly VirtualWorker[],
  times: number,
  asked = request(),
): number[] {
  const counts = new Array<number>(workers.length).fill(0);
  for (let i = 0; i < times; i++) counts[workers.indexOf(policy.choose(workers, asked)!)]!++;
  return counts;
}

Deno.test("round-robin gives each worker its turn, whatever it has under way", () => {
  const parts = setUp(3);
  parts.board.add(parts.workers[0]!.row, Load.requests, 100);
  assertEquals(counts(policyOf("round-robin", parts), parts.workers, 9), [3, 3, 3]);
});

Deno.test("random gives each worker about its share", () => {
  const parts = setUp(4);
  for (const count of counts(policyOf("random", parts), parts.workers, 4_000)) {
    assert(count > 850 && count < 1_150, `${count}`);
  }
});

Deno.test("least-loaded takes the fewest requests of all shards; equals take turns", () => {
  const parts = setUp(3);
  const { board, workers } = parts;
  const policy = policyOf("least-loaded", parts);
  assertEquals(counts(policy, workers, 9), [3, 3, 3]);
  board.add(workers[0]!.row, Load.requests, 2);
  board.add(workers[1]!.row, Load.requests, 1);
  board.add(workers[2]!.row, Load.requests, 2);
  assertEquals(counts(policy, workers, 5), [0, 5, 0]);
});

Deno.test("power-of-two never takes the busiest of three, and takes a lone worker", () => {
  const parts = setUp(3);
  const { board, workers } = parts;
  workers.forEach((worker, i) => board.add(worker.row, Load.requests, i));
  const policy = policyOf("power-of-two", parts);
  const [first, second, third] = counts(policy, workers, 3_000);
  assertEquals(third, 0);
  // Two of the three pairs have the first.
  assert(first! > 1_850 && first! < 2_150 && second! > 850 && second! < 1_150, `${first} ${second}`);
  assertEquals(policy.choose(workers.slice(2), request()), workers[2]);
});

Deno.test("direct takes the worker that the client names, and no other", () => {
  const parts = setUp(2);
  const policy = policyOf("direct", parts);
  assertEquals(policy.choose(parts.workers, request(null, "worker-1")), parts.workers[1]);
  assertEquals(policy.choose(parts.workers, request(null, "worker-9")), null);
  assertEquals(policy.choose(parts.workers, request()), null);
});

Deno.test("kv takes the worker with the longest prefix in its cache, until it is too busy", () => {
  const parts = setUp(2);
  const { board, caches, workers } = parts;
  const policy = policyOf("kv", parts);
  const asked = request(blocksOf(10));
  caches.blocks.set(workers[1]!, 8);
  assertEquals(counts(policy, workers, 4, asked), [0, 4]);
  // The formula of the head of kv_aware.ts: 10 + 10 for the first, 10 - 8 + 10 + 8 for the second.
  board.add(workers[1]!.row, Load.decodeBlocks, 8);
  assertEquals(counts(policy, workers, 4, asked), [2, 2]);
  board.add(workers[1]!.row, Load.prefillBlocks, 1);
  assertEquals(counts(policy, workers, 4, asked), [4, 0]);
});

Deno.test("kv counts what has to be computed and what is held, and tells the caches", () => {
  const parts = setUp(1);
  const { caches, workers } = parts;
  const policy = policyOf("kv", parts);
  const asked = request(blocksOf(10));
  caches.blocks.set(workers[0]!, 4);
  const worker = policy.choose(workers, asked)!;
  assertEquals(policy.place!(worker, asked), { prefill: 6, decode: 10 });
  assertEquals(caches.placements, [worker]);
});

Deno.test("kv without blocks goes by load alone", () => {
  const parts = setUp(2);
  parts.board.add(parts.workers[0]!.row, Load.decodeBlocks, 1);
  assertEquals(counts(policyOf("kv", parts), parts.workers, 3), [0, 3]);
});

Deno.test("kv with a temperature throws dice that the costs weigh", () => {
  const parts = setUp(2);
  const { caches, workers } = parts;
  caches.blocks.set(workers[1]!, 10);
  const asked = request(blocksOf(10));
  const [a, b] = counts(policyOf("kv", parts, 1), workers, 4_000, asked);
  // Costs 20 and 10: e^0 against e^-1.
  const expected = 4_000 / (1 + Math.E);
  assert(Math.abs(a! - expected) < 120 && a! + b! === 4_000, `${a} of about ${expected}`);
  const [cold] = counts(policyOf("kv", parts, 0.01), workers, 1_000, asked);
  assertEquals(cold, 0);
});
