import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { BlockManager } from "../../../src/worker/engines/mocker/block_manager.ts";
import { type Pass, type Scheduled, Scheduler } from "../../../src/worker/engines/mocker/scheduler.ts";
import { Sequence } from "../../../src/worker/engines/mocker/sequence.ts";
import { decodeMs, prefillMs } from "../../../src/worker/engines/mocker/timing.ts";

const BLOCK = 4;
const LIMITS = { maxSequences: 256, maxBatchedTokens: 64, hasChunkedPrefill: true };

interface Request extends Scheduled {
  readonly name: string;
}

function setUp(kvBlocks: number, limits = LIMITS) {
  const blocks = new BlockManager(kvBlocks);
  return { blocks, scheduler: new Scheduler<Request>(blocks, BLOCK, limits) };
}

/** Tokens of a prompt: those of `first`, the same for all, then some of its own. */
function request(name: string, shared: number, own: number): Request {
  const tokens = new Uint32Array(shared + own);
  for (let i = 0; i < tokens.length; i++) tokens[i] = i < shared ? i : name.charCodeAt(0) * 1_000 + i;
  return { name, sequence: new Sequence(tokens, BLOCK) };
}

/** One token for everyone who makes one. */
function finish(pass: Pass<Request> | null): string[] {
  return (pass?.making ?? []).map(({ name, sequence }) => {
    sequence.append(7);
    return name;
  });
}

Deno.test("prefillMs and decodeMs are the formulas of Dynamo's mocker", () => {
  assertEquals([prefillMs(0), decodeMs(0)], [0, 5.74]);
  assertEquals(prefillMs(1_000).toFixed(4), "32.1059");
  assertEquals([decodeMs(0.5).toFixed(3), decodeMs(1).toFixed(2), decodeMs(3)], [
    "26.310",
    "34.01",
    decodeMs(1),
  ]);
});

Deno.test("Scheduler computes a prompt in chunks of the budget, then one token a pass", () => {
  const { scheduler } = setUp(100);
  scheduler.add(request("a", 0, 100));
  const first = scheduler.plan()!;
  assertEquals([first.prefillTokens, finish(first)], [64, []]);
  assertEquals(first.durationMs, prefillMs(64));
  const second = scheduler.plan()!;
  assertEquals([second.prefillTokens, finish(second)], [36, ["a"]]);
  const third = scheduler.plan()!;
  assertEquals([third.prefillTokens, finish(third)], [0, ["a"]]);
  // 100 tokens and one fill 25 blocks and a part of one.
  assertEquals(third.durationMs, decodeMs(26 / 100));
});

Deno.test("Scheduler without chunks waits until a prompt fits the budget whole", () => {
  const { scheduler } = setUp(100, { ...LIMITS, hasChunkedPrefill: false });
  scheduler.add(request("a", 0, 40));
  scheduler.add(request("b", 0, 40));
  assertEquals(finish(scheduler.plan()), ["a"]);
  assertEquals([scheduler.running, scheduler.waiting], [1, 1]);
  assertEquals(finish(scheduler.plan()).sort(), ["a", "b"]);
  assertEquals([scheduler.fits(64), scheduler.fits(65)], [true, false]);
});

Deno.test("Scheduler finds equal beginnings in the cache and computes the rest", () => {
  const { blocks, scheduler } = setUp(100);
  const first = request("a", 40, 2);
  scheduler.add(first);
  finish(scheduler.plan());
  scheduler.remove(first);
  assertEquals([blocks.active, blocks.inactive], [0, 10]);
  scheduler.add(request("b", 40, 3));
  assertEquals(scheduler.plan()!.prefillTokens, 3);
  assertEquals(scheduler.stats.cachedTokens, 40);
  // The very same prompt again: its last token is computed all the same.
  scheduler.add(request("c", 40, 0));
  assertEquals(scheduler.plan()!.prefillTokens, 4);
});

Deno.test("Scheduler makes the newest request start over when the cache is full", () => {
  const { scheduler } = setUp(5);
  const [a, b] = [request("a", 0, 8), request("b", 0, 8)];
  scheduler.add(a!);
  scheduler.add(b!);
  assertEquals(finish(scheduler.plan()), ["a", "b"]);
  // Both want a third block, and there is one.
  assertEquals(finish(scheduler.plan()), ["a"]);
  assertEquals([scheduler.stats.preemptions, scheduler.waiting, scheduler.running], [1, 1, 1]);
  assertEquals([b!.sequence.computed, b!.sequence.length], [0, 9]);
  scheduler.remove(a!);
  assertEquals(finish(scheduler.plan()), ["b"]);
});

Deno.test("Scheduler takes requests in as they came, no more than its limit", () => {
  const { scheduler } = setUp(100, { ...LIMITS, maxSequences: 2 });
  const requests = ["a", "b", "c"].map((name) => request(name, 0, 4));
  for (const one of requests) scheduler.add(one);
  assertEquals(finish(scheduler.plan()), ["a", "b"]);
  scheduler.remove(requests[0]!);
  assertEquals(finish(scheduler.plan()), ["b", "c"]);
});

Deno.test("Scheduler never holds more blocks than there are, and everything comes to its end", () => {
  const one = fc.record({
    shared: fc.nat(20),
    own: fc.integer({ min: 1, max: 20 }),
    tokens: fc.integer({ min: 1, max: 12 }),
  });
  const everything = fc.array(one, { minLength: 1, maxLength: 12 });
  fc.assert(
    fc.property(everything, fc.integer({ min: 13, max: 30 }), fc.boolean(), (asked, kvBlocks, isCached) => {
      const { blocks, scheduler } = setUp(kvBlocks, { ...LIMITS, maxBatchedTokens: 16 });
      const left = new Map<Request, number>();
      asked.forEach(({ shared, own, tokens }, i) => {
        const { sequence } = request(String.fromCharCode(65 + i), shared, own);
        const prompt = new Uint32Array(sequence.promptTokens).map((_, at) =>
          at < shared ? at : 1_000 * i + at
        );
        const added = {
          name: `${i}`,
          sequence: new Sequence(prompt, BLOCK, isCached ? null : (i + 1) * 0x100_0000),
        };
        left.set(added, tokens);
        scheduler.add(added);
      });
      for (let passes = 0; left.size > 0; passes++) {
        assert(passes < 5_000, "it makes no progress");
        const pass = scheduler.plan()!;
        assert(blocks.active + blocks.inactive <= kvBlocks, `${blocks.active} and ${blocks.inactive} blocks`);
        for (const made of pass.making) {
          made.sequence.append(3);
          const tokens = left.get(made)! - 1;
          left.set(made, tokens);
          if (tokens > 0) continue;
          left.delete(made);
          scheduler.remove(made);
        }
      }
      assertEquals([blocks.active, scheduler.running, scheduler.waiting], [0, 0, 0]);
      assertEquals(scheduler.plan(), null);
    }),
  );
});
