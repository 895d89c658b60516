import { assert, assertEquals } from "@std/assert";
import { byteTokenizer } from "../../../src/routing/prompt/tokenizer.ts";
import {
  SimulatedEngine,
  type SimulatedOptions,
} from "../../../src/worker/engines/mocker/simulated_engine.ts";
import { decodeMs, prefillMs } from "../../../src/worker/engines/mocker/timing.ts";
import { chatRequest, RecordingOutput } from "../../support/recording_output.ts";
import { VirtualClock } from "../../support/virtual_clock.ts";

function setUp(options: Partial<SimulatedOptions> = {}) {
  const clock = new VirtualClock();
  const engine = new SimulatedEngine({
    clock,
    tokenizer: byteTokenizer,
    virtualWorkers: 1,
    kvBlocks: 1_000,
    blockSize: 16,
    maxSequences: 256,
    maxBatchedTokens: 8_192,
    hasChunkedPrefill: true,
    hasPrefixCaching: true,
    speedupRatio: 1,
    limits: { defaultTokens: 8, maxTokens: 1_000_000 },
    seed: 0,
    eventBytes: 0,
    unixSeconds: () => 1_700_000_000,
    ...options,
  });
  return { clock, engine };
}

function ask(engine: SimulatedEngine, content: string, tokens: number, more = {}): RecordingOutput {
  const output = new RecordingOutput();
  const request = chatRequest({ max_tokens: tokens, messages: [{ role: "user", content }] });
  engine.run({ ...request, ...more }, output);
  return output;
}

function promptBytes(content: string): number {
  return new TextEncoder().encode(`user: ${content}\n`).length;
}

Deno.test("SimulatedEngine takes a prompt's time for the first token and a step's for each one more", () => {
  const { clock, engine } = setUp();
  const content = "x".repeat(2_000);
  const output = ask(engine, content, 3);
  const prefill = prefillMs(promptBytes(content));
  clock.advance(prefill - 1);
  assertEquals(output.chunks.length, 0);
  clock.advance(2);
  assertEquals(output.chunks.length, 2); // the role and the first token
  clock.advance(2 * decodeMs(0.127) + 2);
  assertEquals([output.chunks.length, output.summary?.outcome], [5, "ok"]);
  assertEquals(output.summary?.usage?.promptTokens, promptBytes(content));
  assertEquals([engine.running, clock.pendingTimers], [0, 0]);
});

Deno.test("SimulatedEngine computes an equal beginning once", () => {
  const { clock, engine } = setUp();
  ask(engine, "x".repeat(8_000), 1);
  clock.runUntilIdle();
  const output = ask(engine, "x".repeat(8_000), 1);
  clock.advance(prefillMs(16) + 1);
  assertEquals(output.summary?.outcome, "ok");
  const without = setUp({ hasPrefixCaching: false });
  ask(without.engine, "x".repeat(8_000), 1);
  without.clock.runUntilIdle();
  const again = ask(without.engine, "x".repeat(8_000), 1);
  without.clock.advance(prefillMs(16) + 1);
  assertEquals(again.summary, null);
});

Deno.test("SimulatedEngine loses and doubles no token when requests have to start over", () => {
  const { clock, engine } = setUp({ kvBlocks: 24 });
  const outputs = ["a", "b", "c"].map((name) => ask(engine, name.repeat(90), 100));
  clock.runUntilIdle();
  assertEquals(outputs.map((output) => output.summary?.outcome), ["ok", "ok", "ok"]);
  // The cache holds two of them at most.
  assert(engine.workers[0]!.scheduler.stats.preemptions > 0);
  for (const output of outputs) assertEquals(output.chunks.length, 1 + 100 + 1);
});

Deno.test("SimulatedEngine refuses what its cache can never hold", () => {
  const { engine } = setUp({ kvBlocks: 4 });
  const output = ask(engine, "x".repeat(60), 10);
  assertEquals([output.status, engine.running], [400, 0]);
});

Deno.test("SimulatedEngine gives the room of a request that nobody wants to others", () => {
  const { clock, engine } = setUp({ kvBlocks: 10 });
  const first = ask(engine, "x".repeat(100), 50);
  const second = ask(engine, "y".repeat(100), 50);
  clock.advance(30);
  assertEquals(second.chunks.length, 0);
  first.abort();
  clock.runUntilIdle();
  assertEquals([second.summary?.outcome, engine.running], ["ok", 0]);
  assertEquals(engine.workers[0]!.blocks.active, 0);
});

Deno.test("SimulatedEngine makes nothing for an output that is full, and goes on when it has room", () => {
  const { clock, engine } = setUp();
  const slow = ask(engine, "x", 5);
  const other = ask(engine, "y", 5);
  slow.writable = false;
  clock.advance(1_000);
  assertEquals([slow.summary, other.summary?.outcome], [null, "ok"]);
  const held = slow.chunks.length;
  clock.advance(1_000);
  assertEquals(slow.chunks.length, held);
  slow.writable = true;
  slow.onWritable?.();
  clock.runUntilIdle();
  assertEquals([slow.summary?.outcome, slow.chunks.length], ["ok", 7]);
});

Deno.test("SimulatedEngine gives each virtual worker a cache of its own, and requests to the one chosen", () => {
  const { clock, engine } = setUp({ virtualWorkers: 3 });
  for (let i = 0; i < 4; i++) ask(engine, "x", 1, { virtualWorker: 2 });
  assertEquals(engine.workers.map(({ load }) => load), [0, 0, 4]);
  for (let i = 0; i < 4; i++) ask(engine, "x", 1);
  assertEquals(engine.workers.map(({ load }) => load), [2, 2, 4]);
  clock.runUntilIdle();
  assertEquals([engine.running, engine.workers.map(({ load }) => load)], [0, [0, 0, 0]]);
});

Deno.test("SimulatedEngine ends everything when it closes", async () => {
  const { clock, engine } = setUp();
  const running = ask(engine, "x", 50);
  clock.advance(40);
  const waiting = ask(engine, "y", 50);
  await engine.close();
  assertEquals([running.summary?.outcome, waiting.status], ["truncated", 503]);
  assertEquals([ask(engine, "z", 1).status, engine.running, clock.pendingTimers], [503, 0, 0]);
});
