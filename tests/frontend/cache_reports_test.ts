/** A worker's cache and a frontend's picture of it, over an in-memory network with virtual time. */
import { assertEquals } from "@std/assert";
import { CacheReports } from "../../src/frontend/cache_reports.ts";
import { silentLogger } from "../../src/observe/log.ts";
import { hashBlocks } from "../../src/routing/kv/block_hashes.ts";
import { EventsWriter, KV_EVENTS_HANDLER } from "../../src/routing/kv/cache_events.ts";
import { ReportedCaches } from "../../src/routing/kv/reported_caches.ts";
import { WorkerTable } from "../../src/routing/worker_table.ts";
import { CachePublisher } from "../../src/worker/cache_publisher.ts";
import { BlockManager } from "../../src/worker/engines/mocker/block_manager.ts";
import { Sequence } from "../../src/worker/engines/mocker/sequence.ts";
import { seededRandom } from "../../transports/memory/random.ts";
import { MessengerNet } from "../support/messenger_net.ts";

const BLOCK = 4;
const LIMITS = { maxBlocks: 10_000, maxWorkers: 16, maxWorkerBlocks: 1_000 };

async function setUp(kvBlocks: number) {
  const net = new MessengerNet();
  const [frontend, node] = await net.pair();
  const table = new WorkerTable({
    clock: net.clock,
    joinIntervalMs: 60_000,
    lostGraceMs: 500,
    maxWorkers: 4,
  });
  const caches = new ReportedCaches(LIMITS);
  const reports = new CacheReports({ messenger: frontend, table, caches, log: silentLogger });
  let isJoined = true;
  const publisher = new CachePublisher({
    messenger: node,
    clock: net.clock,
    frontends: () => isJoined ? [frontend.instanceId] : [],
  });
  const engines = [0, 1].map((index) => new BlockManager(kvBlocks, publisher.eventsOf(index)));
  const { instanceId } = node;
  const worker = table.join({ instanceId, models: [], engine: "", capacity: 0, virtualWorkers: 2 })!;
  const overlap = (tokens: Uint32Array, virtual = 0) => {
    const into = new Uint32Array(1);
    const request = { model: "m", blocks: hashBlocks(tokens, BLOCK), wanted: null };
    caches.overlaps(request, [worker.virtual[virtual]!], into);
    return into[0]!;
  };
  const close = async () => {
    publisher.close();
    table.close();
    await net.close();
  };
  const hold = (on: boolean) => void (isJoined = on);
  return { net, frontend, node, caches, reports, publisher, engines, worker, overlap, hold, close };
}

function promptOf(seed: number, blocks: number): Uint32Array {
  const random = seededRandom(seed);
  return Uint32Array.from({ length: BLOCK * blocks }, () => Math.floor(random() * 1_000));
}

/** Takes a prompt's blocks and lets go of them; as many as there is room for. */
function run(engine: BlockManager, tokens: Uint32Array): void {
  const sequence = new Sequence(tokens, BLOCK);
  let held = 0;
  while (held < sequence.fullBlocks && engine.use(sequence, held)) held++;
  for (let i = held - 1; i >= 0; i--) engine.release(sequence.blockAt(i));
}

/** What the engine really has of a prompt. */
function truth(engine: BlockManager, tokens: Uint32Array): number {
  const sequence = new Sequence(tokens, BLOCK);
  let blocks = 0;
  while (blocks < sequence.fullBlocks && engine.has(sequence.blockAt(blocks))) blocks++;
  return blocks;
}

Deno.test("CacheReports shows the frontend what each logical worker has", async () => {
  const { net, engines, overlap, close } = await setUp(100);
  run(engines[0]!, promptOf(1, 8));
  run(engines[1]!, promptOf(1, 3));
  await net.pass();
  assertEquals([overlap(promptOf(1, 8), 0), overlap(promptOf(1, 8), 1), overlap(promptOf(2, 8))], [8, 3, 0]);
  await close();
});

Deno.test("CacheReports agrees with the engine however much is stored and evicted", async () => {
  const { net, caches, engines, overlap, close } = await setUp(40);
  const random = seededRandom(11);
  for (let round = 0; round < 300; round++) {
    run(engines[0]!, promptOf(Math.floor(random() * 20), 1 + Math.floor(random() * 12)));
    if (round % 10 === 0) await net.pass();
  }
  await net.pass();
  for (let seed = 0; seed < 20; seed++) {
    const tokens = promptOf(seed, 12);
    assertEquals(overlap(tokens), truth(engines[0]!, tokens), `prompt ${seed}`);
  }
  assertEquals([caches.index.blocks, caches.stats.gaps], [40, 0]);
  await close();
});

Deno.test("CacheReports asks for the whole when it missed something", async () => {
  const { net, caches, engines, publisher, overlap, hold, close } = await setUp(100);
  run(engines[0]!, promptOf(1, 4));
  await net.pass();
  hold(false);
  run(engines[0]!, promptOf(2, 4));
  await net.pass();
  hold(true);
  run(engines[0]!, promptOf(3, 4));
  await net.pass(50);
  assertEquals([1, 2, 3].map((seed) => overlap(promptOf(seed, 4))), [4, 4, 4]);
  assertEquals([caches.stats.gaps, publisher.stats.snapshots], [1, 1]);
  await close();
});

Deno.test("CacheReports learns what a worker has that joins with a cache", async () => {
  const { net, engines, hold, overlap, reports, worker, close } = await setUp(1_000);
  hold(false);
  for (let seed = 0; seed < 100; seed++) run(engines[0]!, promptOf(seed, 8));
  await net.pass();
  hold(true);
  reports.onConnected(worker);
  await net.pass(50);
  assertEquals([overlap(promptOf(0, 8)), overlap(promptOf(99, 8))], [8, 8]);
  await close();
});

Deno.test("CacheReports survives reports that cannot be read, and takes none from a node that is no worker", async () => {
  const { net, frontend, node, caches, overlap, engines, close } = await setUp(100);
  run(engines[0]!, promptOf(1, 4));
  await net.pass();
  const stranger = await net.node();
  frontend.registerPeer(stranger.peerInfo);
  stranger.registerPeer(frontend.peerInfo);
  const empty = new EventsWriter().finish({ isSnapshot: true, virtualWorker: 0, firstEvent: 9n });
  for (const bytes of [new Uint8Array(3), Uint8Array.of(1, 0, 9, 0), new Uint8Array(40).fill(1), empty]) {
    stranger.sendOneWay(frontend.instanceId, 0, KV_EVENTS_HANDLER, [bytes]);
  }
  await net.pass(50);
  assertEquals([overlap(promptOf(1, 4)), caches.stats.malformed], [4, 0]);
  // Of logical worker 0, but cut: its picture is void until the snapshot, which is asked for with the next report.
  const writer = new EventsWriter();
  writer.cleared();
  const cut = writer.finish({ isSnapshot: false, virtualWorker: 0, firstEvent: 1n }).slice(0, -1);
  node.sendOneWay(frontend.instanceId, 0, KV_EVENTS_HANDLER, [cut]);
  await net.pass(50);
  assertEquals([overlap(promptOf(1, 4)), caches.stats.malformed], [0, 1]);
  run(engines[0]!, promptOf(2, 4));
  await net.pass(50);
  assertEquals([overlap(promptOf(1, 4)), overlap(promptOf(2, 4))], [4, 4]);
  await close();
});
