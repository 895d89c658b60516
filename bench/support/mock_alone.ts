/**
 * The mock engine with nobody behind it, as a process of its own: what its tokens cost before any is packed or written.
 *
 * `deno run -A bench/support/mock_alone.ts STREAMS STEP_MS SECONDS` prints that in µs of CPU per token.
 */
import process from "node:process";
import { deadline, delay } from "@std/async";
import { systemClock } from "../../src/clock.ts";
import type { EngineOutput } from "../../src/worker/engines/engine.ts";
import { MockEngine } from "../../src/worker/engines/mock.ts";
import { V8_FLAGS } from "../../tools/v8_flags.ts";
import { ManagedProcess } from "./managed_process.ts";
import { print } from "./print.ts";

const WARMUP_MS = 3_000;
/** No stream ends before it is asked to. */
const TOKENS = 1_000_000;

/** Runs it on these cores (null: any) and resolves to µs of CPU per token. */
export async function mockCost(
  streams: number,
  stepMs: number,
  seconds: number,
  cores: string | null,
): Promise<number> {
  const { promise, resolve } = Promise.withResolvers<number>();
  const program = new URL(import.meta.url).pathname;
  const args = [streams, stepMs, seconds].map(String);
  const child = await ManagedProcess.spawn(
    "mock engine",
    [Deno.execPath(), "run", "-A", V8_FLAGS, program, ...args],
    { cores, onLine: (line) => resolve(Number(line)) },
  );
  try {
    return await deadline(promise, WARMUP_MS + seconds * 1_000 + 30_000);
  } finally {
    await child.stop();
  }
}

class Discard implements EngineOutput {
  readonly signal: AbortSignal = new AbortController().signal;
  onWritable: (() => void) | null = null;
  tokens = 0;

  head(): void {}

  data(): boolean {
    this.tokens++;
    return true;
  }

  end(): void {}
}

async function main([streams, stepMs, seconds]: readonly number[]): Promise<void> {
  const engine = new MockEngine({ clock: systemClock, ttftMs: 10, itlMs: stepMs! });
  const fields = {
    model: "mock",
    stream: true,
    max_tokens: TOKENS,
    messages: [{ role: "user", content: "Hi" }],
  };
  const body = new TextEncoder().encode(JSON.stringify(fields));
  const outputs = Array.from({ length: streams! }, () => new Discard());
  for (const [index, output] of outputs.entries()) {
    const request = {
      id: `${index}`,
      path: "/v1/chat/completions",
      model: "mock",
      stream: true,
      headers: {},
      body,
    };
    engine.run(request, output);
  }
  // The engine's timers keep no process alive; these waits do.
  await delay(WARMUP_MS);
  const made = () => outputs.reduce((sum, output) => sum + output.tokens, 0);
  const before = process.cpuUsage();
  const first = made();
  await delay(seconds! * 1_000);
  const { user, system } = process.cpuUsage(before);
  print(`${(user + system) / (made() - first)}`);
  await engine.close();
}

if (import.meta.main) await main(Deno.args.map(Number));
