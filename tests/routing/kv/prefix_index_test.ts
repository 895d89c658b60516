import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { hashBlocks } from "../../../src/routing/kv/block_hashes.ts";
import { PrefixIndex } from "../../../src/routing/kv/prefix_index.ts";

const LIMITS = { maxBlocks: 1_000_000, maxWorkers: 4_096 };

function promptOf(...blocks: number[]): Uint32Array {
  return hashBlocks(Uint32Array.from(blocks), 1).sequence;
}

function storeAll(index: PrefixIndex, worker: number, sequence: Uint32Array): void {
  for (let i = 0; i < sequence.length; i += 2) index.store(worker, sequence[i]!, sequence[i + 1]!);
}

function depthsOf(index: PrefixIndex, sequence: Uint32Array, workers: number): number[] {
  const depths = new Uint32Array(workers);
  index.match(sequence, sequence.length / 2, depths);
  return [...depths];
}

Deno.test("PrefixIndex tells each worker how far it has a prompt", () => {
  const index = new PrefixIndex(LIMITS);
  const [a, b, c] = [index.addWorker(), index.addWorker(), index.addWorker()];
  storeAll(index, a!, promptOf(1, 2, 3, 4));
  storeAll(index, b!, promptOf(1, 2, 9));
  assertEquals(depthsOf(index, promptOf(1, 2, 3, 4, 5), 3), [4, 2, 0]);
  assertEquals(depthsOf(index, promptOf(7), 3), [0, 0, 0]);
  assertEquals(depthsOf(index, promptOf(), 3), [0, 0, 0]);
  assertEquals(c, 2);
});

Deno.test("PrefixIndex counts a block behind a hole for nothing", () => {
  const index = new PrefixIndex(LIMITS);
  const worker = index.addWorker();
  const prompt = promptOf(1, 2, 3);
  storeAll(index, worker, prompt);
  index.remove(worker, prompt[2]!, prompt[3]!);
  assertEquals(depthsOf(index, prompt, 1), [1]);
});

Deno.test("PrefixIndex gives a worker's blocks up when it leaves, and its number to the next", () => {
  const index = new PrefixIndex(LIMITS);
  const [a, b] = [index.addWorker(), index.addWorker()];
  storeAll(index, a!, promptOf(1, 2, 3));
  storeAll(index, b!, promptOf(1, 2));
  index.removeWorker(a!);
  assertEquals([index.blocks, index.workers, index.heldBy(a!)], [2, 1, 0]);
  assertEquals(depthsOf(index, promptOf(1, 2, 3), 2), [0, 2]);
  assertEquals(index.store(a!, 1, 1), false);
  assertEquals(index.addWorker(), a);
  assertEquals(depthsOf(index, promptOf(1, 2, 3), 2), [0, 2]);
  index.removeWorker(b!);
  assertEquals(index.blocks, 0);
});

Deno.test("PrefixIndex takes no more blocks and workers than its limits", () => {
  const index = new PrefixIndex({ maxBlocks: 2, maxWorkers: 1 });
  const worker = index.addWorker();
  assertEquals(index.addWorker(), -1);
  storeAll(index, worker, promptOf(1, 2, 3));
  assertEquals([index.blocks, index.refused], [2, 1]);
  storeAll(index, worker, promptOf(1, 2));
  assertEquals(index.refused, 1);
});

Deno.test("PrefixIndex agrees with sets of strings, whatever comes and goes", () => {
  const step = fc.record({
    kind: fc.constantFrom("store", "remove", "clear", "leave", "come"),
    worker: fc.nat(70),
    prompt: fc.array(fc.nat(2), { maxLength: 6 }),
  });
  fc.assert(fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
    const index = new PrefixIndex(LIMITS);
    const model = new Map<number, Set<string>>();
    for (let i = 0; i < 70; i++) model.set(index.addWorker(), new Set());
    for (const { kind, worker, prompt } of steps) {
      const sequence = promptOf(...prompt);
      const names = prompt.map((_, i) => prompt.slice(0, i + 1).join());
      const held = model.get(worker);
      if (kind === "store") {
        storeAll(index, worker, sequence);
        for (const name of names) held?.add(name);
      } else if (kind === "remove" && names.length > 0) {
        const isHeld = index.remove(worker, sequence.at(-2)!, sequence.at(-1)!);
        assertEquals(isHeld, held?.delete(names.at(-1)!) ?? false);
      } else if (kind === "clear") {
        index.clear(worker);
        held?.clear();
      } else if (kind === "leave") {
        index.removeWorker(worker);
        model.delete(worker);
      } else if (kind === "come" && model.size < 70) {
        model.set(index.addWorker(), new Set());
      }
      const depths = depthsOf(index, sequence, 80);
      for (let w = 0; w < 80; w++) {
        const has = model.get(w);
        let depth = 0;
        while (depth < names.length && has?.has(names[depth]!) === true) depth++;
        assertEquals(depths[w], depth);
      }
    }
    const all = new Set([...model.values()].flatMap((held) => [...held]));
    assertEquals(index.blocks, all.size);
    assertEquals([...model].every(([w, held]) => index.heldBy(w) === held.size), true);
  }));
});

Deno.test("PrefixIndex memory follows what workers hold, not what they have held", () => {
  const index = new PrefixIndex(LIMITS);
  const worker = index.addWorker();
  for (let round = 0; round < 50; round++) {
    for (let i = 0; i < 1_000; i++) index.store(worker, i, round);
    index.clear(worker);
  }
  assertEquals(index.blocks, 0);
  assert(index.bytes < 100_000, `${index.bytes} bytes`);
});
