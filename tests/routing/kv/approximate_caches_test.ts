import { assertEquals } from "@std/assert";
import { ApproximateCaches } from "../../../src/routing/kv/approximate_caches.ts";
import { hashBlocks } from "../../../src/routing/kv/block_hashes.ts";
import type { RouteRequest } from "../../../src/routing/policies/policy.ts";
import { Worker } from "../../../src/routing/worker.ts";
import { VirtualClock } from "../../support/virtual_clock.ts";

const LIMITS = { maxBlocks: 1_000, maxWorkers: 16 };

function asking(...tokens: number[]): RouteRequest {
  return { model: "m", blocks: hashBlocks(Uint32Array.from(tokens), 1), wanted: null };
}

function setUp() {
  const clock = new VirtualClock();
  const caches = new ApproximateCaches(clock, 1_000, LIMITS);
  const workers = ["a", "b"].map((id) =>
    new Worker({ instanceId: id, models: [], engine: "", capacity: 0, virtualWorkers: 1 }, 0).virtual[0]!
  );
  const overlaps = (request: RouteRequest) => {
    const into = new Uint32Array(2);
    caches.overlaps(request, workers, into);
    return [...into];
  };
  return { clock, caches, workers, overlaps };
}

Deno.test("ApproximateCaches takes a worker to have what it was given, for a while", () => {
  const { clock, caches, workers, overlaps } = setUp();
  caches.placed(workers[1]!, asking(1, 2, 3));
  assertEquals(overlaps(asking(1, 2, 9)), [0, 2]);
  clock.advance(999);
  assertEquals(overlaps(asking(1, 2, 9)), [0, 2]);
  clock.advance(1);
  assertEquals([overlaps(asking(1, 2, 9)), caches.index.blocks], [[0, 0], 0]);
});

Deno.test("ApproximateCaches counts the time from when blocks were last asked for", () => {
  const { clock, caches, workers, overlaps } = setUp();
  caches.placed(workers[0]!, asking(1, 2, 3));
  clock.advance(600);
  caches.placed(workers[0]!, asking(1, 2));
  clock.advance(600);
  assertEquals(overlaps(asking(1, 2, 3)), [2, 0]);
  clock.advance(600);
  assertEquals([overlaps(asking(1, 2, 3)), caches.index.blocks], [[0, 0], 0]);
});

Deno.test("ApproximateCaches without blocks knows nothing, and forgets a worker that has gone", () => {
  const { caches, workers, overlaps } = setUp();
  caches.placed(workers[0]!, { model: "m", blocks: null, wanted: null });
  assertEquals(overlaps({ model: "m", blocks: null, wanted: null }), [0, 0]);
  caches.placed(workers[0]!, asking(1));
  caches.forget(workers[0]!);
  assertEquals([overlaps(asking(1)), caches.index.blocks, caches.index.workers], [[0, 0], 0, 0]);
});
