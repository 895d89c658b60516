/**
 * The load client without a C compiler: same flags, same lines of JSON as `native/sse_client.c`, several times its CPU.
 * It cannot stall and cannot set a segment size.
 */

import process from "node:process";
import { delay } from "@std/async";
import { type FlagValues, parseFlags } from "./flags.ts";
import { print } from "./print.ts";

const FLAGS = {
  port: { default: 0, help: "port on 127.0.0.1" },
  streams: { default: 512, help: "connections" },
  tokens: { default: 100, help: "tokens per stream" },
  seconds: { default: 0, help: "measured window" },
  rounds: { default: 0, help: "requests per stream, in place of seconds" },
  "warmup-seconds": { default: 0, help: "before the window" },
  "ramp-seconds": { default: 0, help: "first requests are spread over so long" },
  "deadline-seconds": { default: 60, help: "end of the run, whatever is open" },
} as const;

/** Events behind the last token that are not tokens: the finish chunk and the usage chunk. */
const EXTRA_EVENTS = 2;
const DATA = /^data:(?! ?\[DONE\])/gm;

interface Totals {
  phase: "warm-up" | "measured" | "draining";
  tokens: number;
  merged: number;
  events: number;
  bytes: number;
  completed: number;
  allCompleted: number;
  ttft: number[];
  gaps: number[];
  errors: Record<string, number>;
  firstError: string;
}

async function main(args: readonly string[]): Promise<void> {
  const flags = parseFlags(args, FLAGS);
  const totals: Totals = {
    phase: "warm-up",
    tokens: 0,
    merged: 0,
    events: 0,
    bytes: 0,
    completed: 0,
    allCompleted: 0,
    ttft: [],
    gaps: [],
    errors: {},
    firstError: "",
  };
  const deadline = AbortSignal.timeout(flags["deadline-seconds"] * 1_000);
  const streams = Array.from({ length: flags.streams }, (_, i) => runStream(i, flags, totals, deadline));
  const all = Promise.all(streams);
  await Promise.race([delay(flags["warmup-seconds"] * 1_000), all]);
  totals.phase = "measured";
  print('{"event":"begin"}');
  const [start, cpu] = [performance.now(), cpuSeconds()];
  await (flags.rounds > 0 ? all : Promise.race([delay(flags.seconds * 1_000), all]));
  totals.phase = "draining";
  print('{"event":"end"}');
  const seconds = (performance.now() - start) / 1_000;
  const used = cpuSeconds() - cpu;
  await all;
  print(JSON.stringify({ event: "result", streams: flags.streams, ...report(totals, seconds, used) }));
  Deno.exit(0); // pending timers of the window must not hold it
}

async function runStream(
  index: number,
  flags: FlagValues<typeof FLAGS>,
  totals: Totals,
  deadline: AbortSignal,
): Promise<void> {
  await delay(flags["ramp-seconds"] * 1_000 * index / flags.streams);
  for (let round = 0; flags.rounds === 0 || round < flags.rounds; round++) {
    if (totals.phase === "draining") return;
    try {
      await readOne(flags, totals, deadline);
    } catch (error) {
      fail(totals, deadline.aborted ? "timeout" : "connect", String(error));
      if (deadline.aborted) return;
      await delay(100);
    }
  }
}

async function readOne(
  flags: FlagValues<typeof FLAGS>,
  totals: Totals,
  deadline: AbortSignal,
): Promise<void> {
  const counted = totals.phase === "measured";
  const sent = performance.now();
  const response = await fetch(`http://127.0.0.1:${flags.port}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "mock",
      messages: [{ role: "user", content: "Say something." }],
      stream: true,
      max_tokens: flags.tokens,
    }),
    signal: deadline,
  });
  if (response.status !== 200 || response.body === null) {
    return fail(totals, "status", `status ${response.status}: ${(await response.text()).slice(0, 100)}`);
  }
  let [events, tokens, last, tail, broken] = [0, 0, 0, "", false];
  for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
    const now = performance.now();
    if (last === 0 && counted && totals.phase === "measured") totals.ttft.push(now - sent);
    const whole = tail + text;
    const cut = whole.lastIndexOf("\n\n") + 2;
    const complete = whole.slice(0, cut < 2 ? 0 : cut);
    tail = whole.slice(complete.length);
    broken ||= complete.includes('data: {"error"');
    const arrived = complete.match(DATA)?.length ?? 0;
    for (let i = 0; i < arrived && tokens < flags.tokens; i++, tokens++) {
      if (totals.phase !== "measured") continue;
      if (tokens > 0) totals.gaps.push(i > 0 ? 0 : now - last);
      if (i > 0) totals.merged++;
      totals.tokens++;
    }
    if (totals.phase === "measured") totals.events += arrived, totals.bytes += text.length;
    events += arrived;
    last = now;
  }
  if (broken) return fail(totals, "error_event", "an error event");
  if (tokens !== flags.tokens || events > flags.tokens + EXTRA_EVENTS) {
    return fail(totals, "token_count", `${events} events`);
  }
  totals.allCompleted++;
  if (totals.phase === "measured") totals.completed++;
}

function fail(totals: Totals, kind: string, what: string): void {
  totals.errors[kind] = (totals.errors[kind] ?? 0) + 1;
  if (totals.firstError === "") totals.firstError = `${kind}: ${what}`;
}

function report(totals: Totals, seconds: number, cpu: number) {
  return {
    seconds,
    requests: totals.completed,
    all_requests: totals.allCompleted,
    stalled: 0,
    tokens: totals.tokens,
    merged_tokens: totals.merged,
    events: totals.events,
    body_bytes: totals.bytes,
    tokens_per_s: totals.tokens / seconds,
    ttft_ms: quantiles(totals.ttft),
    gap_ms: quantiles(totals.gaps),
    client_cpu_us_per_token: cpu * 1e6 / totals.tokens,
    client_core_share: cpu / seconds,
    errors: totals.errors,
    errors_total: Object.values(totals.errors).reduce((sum, count) => sum + count, 0),
    first_error: totals.firstError,
  };
}

function quantiles(values: number[]) {
  const sorted = Float64Array.from(values).sort();
  const at = (q: number) => sorted.length === 0 ? 0 : sorted[Math.ceil(q * sorted.length) - 1] ?? 0;
  return { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1), count: sorted.length };
}

function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

if (import.meta.main) await main(Deno.args);
