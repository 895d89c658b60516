import { assertEquals, assertThrows } from "@std/assert";
import { type BlockHashes, hashBlocks } from "../../../src/routing/kv/block_hashes.ts";
import { EventsWriter } from "../../../src/routing/kv/cache_events.ts";
import { ReportedCaches } from "../../../src/routing/kv/reported_caches.ts";
import { type VirtualWorker, Worker } from "../../../src/routing/worker.ts";

const LIMITS = { maxBlocks: 1_000, maxWorkers: 16, maxWorkerBlocks: 500 };

function newWorker(name: string): VirtualWorker {
  return new Worker({ instanceId: name, models: [], engine: "", capacity: 0, virtualWorkers: 1 }, 0)
    .virtual[0]!;
}

function promptOf(...tokens: number[]): BlockHashes {
  return hashBlocks(Uint32Array.from(tokens), 1);
}

/** The engine's own name of block `i`, whose like no sequence hash is. */
function nameOf(blocks: BlockHashes, i: number): [number, number] {
  return [(blocks.sequence[2 * i]! ^ 0x5555_5555) >>> 0, 7];
}

/** Stores blocks `from` to the end of a prompt. */
function store(writer: EventsWriter, blocks: BlockHashes, from = 0): void {
  for (let i = from; i < blocks.count; i++) {
    const local: [number, number] = [blocks.local[2 * i]!, blocks.local[2 * i + 1]!];
    const [lo, hi] = nameOf(blocks, i);
    writer.stored(i === 0 ? null : nameOf(blocks, i - 1), lo, hi, local);
  }
}

function overlap(caches: ReportedCaches, worker: VirtualWorker, blocks: BlockHashes): number {
  const into = new Uint32Array(1);
  caches.overlaps({ model: "m", blocks, wanted: null }, [worker], into);
  return into[0]!;
}

function report(writer: EventsWriter, firstEvent: bigint, isSnapshot = false): Uint8Array {
  return writer.finish({ isSnapshot, virtualWorker: 0, firstEvent });
}

Deno.test("ReportedCaches follows what a worker stores, removes and clears", () => {
  const caches = new ReportedCaches(LIMITS);
  const [worker, other] = [newWorker("a"), newWorker("b")];
  const writer = new EventsWriter();
  const prompt = promptOf(1, 2, 3, 4);
  store(writer, promptOf(1, 2));
  assertEquals(caches.handle(worker!, report(writer, 0n)), false);
  assertEquals([overlap(caches, worker!, prompt), overlap(caches, other!, prompt)], [2, 0]);
  store(writer, prompt, 2);
  assertEquals(caches.handle(worker!, report(writer, 1n)), false);
  assertEquals(overlap(caches, worker!, prompt), 4);
  writer.removed(...nameOf(prompt, 3));
  assertEquals(caches.handle(worker!, report(writer, 2n)), false);
  assertEquals(overlap(caches, worker!, prompt), 3);
  writer.cleared();
  caches.handle(worker!, report(writer, 3n));
  assertEquals([overlap(caches, worker!, prompt), caches.index.blocks], [0, 0]);
});

Deno.test("ReportedCaches asks for a snapshot when reports are missing, and counts the worker as empty until then", () => {
  const caches = new ReportedCaches(LIMITS);
  const worker = newWorker("a");
  const writer = new EventsWriter();
  const prompt = promptOf(1, 2, 3);
  store(writer, prompt);
  caches.handle(worker, report(writer, 0n));
  writer.cleared();
  assertEquals(caches.handle(worker, report(writer, 2n)), true);
  assertEquals([overlap(caches, worker, prompt), caches.stats.gaps], [0, 1]);
  writer.cleared();
  assertEquals(caches.handle(worker, report(writer, 3n)), true, "still unknown");
  store(writer, prompt);
  assertEquals(caches.handle(worker, report(writer, 5n, true)), false);
  assertEquals(overlap(caches, worker, prompt), 3);
  // A report from before the snapshot that comes behind it.
  writer.cleared();
  assertEquals(caches.handle(worker, report(writer, 4n)), false);
  assertEquals(overlap(caches, worker, prompt), 3);
  writer.cleared();
  assertEquals(caches.handle(worker, report(writer, 5n)), false);
  assertEquals([overlap(caches, worker, prompt), caches.stats.gaps], [0, 1]);
});

Deno.test("ReportedCaches needs a snapshot of a worker that it hears in mid-stream", () => {
  const caches = new ReportedCaches(LIMITS);
  const writer = new EventsWriter();
  store(writer, promptOf(1));
  assertEquals(caches.handle(newWorker("a"), report(writer, 17n)), true);
  assertEquals(caches.stats.gaps, 0);
});

Deno.test("ReportedCaches takes nothing from a chain that hangs on an unknown block", () => {
  const caches = new ReportedCaches(LIMITS);
  const worker = newWorker("a");
  const writer = new EventsWriter();
  const prompt = promptOf(1, 2, 3);
  store(writer, prompt, 1);
  caches.handle(worker, report(writer, 0n));
  assertEquals([caches.index.blocks, overlap(caches, worker, prompt)], [0, 0]);
});

Deno.test("ReportedCaches voids what it knows of a worker whose report it cannot read", () => {
  const caches = new ReportedCaches(LIMITS);
  const worker = newWorker("a");
  const writer = new EventsWriter();
  const prompt = promptOf(1, 2, 3);
  store(writer, prompt);
  caches.handle(worker, report(writer, 0n));
  store(writer, promptOf(9));
  const cut = report(writer, 1n).slice(0, -1);
  assertThrows(() => caches.handle(worker, cut), Error, "Cannot read cache events");
  assertEquals([overlap(caches, worker, prompt), caches.index.blocks, caches.stats.malformed], [0, 0, 1]);
});

Deno.test("ReportedCaches keeps to its limits and lets go of a worker that has gone", () => {
  const caches = new ReportedCaches({ maxBlocks: 6, maxWorkers: 2, maxWorkerBlocks: 4 });
  const [a, b, c] = ["a", "b", "c"].map(newWorker);
  const writer = new EventsWriter();
  const prompt = promptOf(1, 2, 3, 4, 5, 6);
  const another = promptOf(7, 8, 9, 10);
  store(writer, prompt);
  caches.handle(a!, report(writer, 0n));
  store(writer, another);
  caches.handle(b!, report(writer, 0n));
  assertEquals([overlap(caches, a!, prompt), overlap(caches, b!, another)], [4, 2]);
  store(writer, prompt);
  assertEquals(caches.handle(c!, report(writer, 0n)), false);
  assertEquals(overlap(caches, c!, prompt), 0);
  caches.forget(a!);
  caches.forget(b!);
  assertEquals([caches.index.blocks, caches.index.workers], [0, 0]);
});
