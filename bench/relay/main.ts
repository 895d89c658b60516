/**
 * `deno task bench:relay`: what carrying one token costs, tokenplane beside the proxies one would use in its place and
 * beside the floor. Arms are interleaved (A B C A B C …), each starts afresh for every repetition, medians are reported.
 */

import { helpText, parseFlags, toNumbers } from "../support/flags.ts";
import { chooseCores, describeMachine, machineLine } from "../support/machine.ts";
import { buildNative, NO_COMPILER } from "../support/native.ts";
import { OUT_DIR } from "../support/paths.ts";
import { note, print } from "../support/print.ts";
import { tokenplaneCommand, words } from "../support/tokenplane_command.ts";
import { runBenchmark } from "../support/verdict.ts";
import type { Arm, ArmContext } from "./arms/arm.ts";
import { selectArms } from "./arms/mod.ts";
import { measureArm, type Repetition, type WindowOptions } from "./measure.ts";
import { ratioLines, ratios, summaryTable } from "./report.ts";
import { type ArmSummary, FOREIGN_CORES, summarise, warnings } from "./summary.ts";

const FLAGS = {
  arms: {
    default: "all",
    help: "which arms: all (those without TLS), tls, or a list as nginx,tokenplane,nginx-tls",
  },
  streams: { default: 512, help: "concurrent streams" },
  tokens: { default: 100, help: "tokens per stream" },
  "step-ms": {
    default: "20",
    help: "time between two tokens of a stream; a list as 20,5 runs one after the other",
  },
  "ttft-ms": { default: 10, help: "time to the first token at the producer" },
  "event-bytes": { default: 170, help: "size of one event (floor, nginx, haproxy)" },
  seconds: { default: 8, help: "measured window" },
  "warmup-seconds": { default: 3, help: "before the window" },
  "warm-requests": {
    default: 20_000,
    help: "short requests before the warm-up: about a minute of this load",
  },
  "ramp-seconds": {
    default: -1,
    help:
      "first requests are spread over so long; 0: all at once, in step ever after; -1: one stream's length",
  },
  reps: { default: 3, help: "repetitions of each arm" },
  retries: {
    default: 1,
    help: "further tries of a repetition that other processes disturbed; the calmest counts",
  },
  "relay-cores": { default: "", help: "cores of the relay (default: 0)" },
  "other-cores": { default: "", help: "cores of producer and client (default: all but 0)" },
  binary: { default: "", help: "a compiled tokenplane (default: main.ts)" },
  "frontend-flags": { default: "", help: "further flags of the frontend, separated by spaces" },
  "worker-flags": { default: "", help: "further flags of the worker, separated by spaces" },
  out: { default: `${OUT_DIR}relay.json`, help: "where the JSON goes" },
} as const;

type Settings = Omit<ArmContext, "scratch">;

/** One step size's results. */
interface StepResult {
  readonly stepMs: number;
  readonly summaries: readonly ArmSummary[];
  readonly repetitions: readonly Repetition[];
}

async function main(args: readonly string[]): Promise<boolean> {
  if (args.includes("--help")) return print(helpText("deno task bench:relay", FLAGS)), true;
  const flags = parseFlags(args, FLAGS);
  const native = await buildNative();
  if (native === null) note(NO_COMPILER);
  const cores = await chooseCores(flags["relay-cores"], flags["other-cores"]);
  if (cores.relay === null) {
    note("Nothing is pinned to a core: that takes two cores and taskset (apt-get install util-linux)");
  }
  const machine = describeMachine();
  const base: Omit<Settings, "stepMs"> = {
    native,
    tokenplane: tokenplaneCommand(flags.binary),
    tokens: flags.tokens,
    ttftMs: flags["ttft-ms"],
    eventBytes: flags["event-bytes"],
    streams: flags.streams,
    relayCores: cores.relay,
    otherCores: cores.others,
    frontendFlags: words(flags["frontend-flags"]),
    workerFlags: words(flags["worker-flags"]),
  };
  const results: StepResult[] = [];
  for (const stepMs of toNumbers("step-ms", flags["step-ms"])) {
    const context = { ...base, stepMs };
    const arms = await availableArms(selectArms(flags.arms), context);
    const streamSeconds = flags.tokens * stepMs / 1_000;
    const rampSeconds = flags["ramp-seconds"] < 0 ? streamSeconds : flags["ramp-seconds"];
    const window = {
      seconds: flags.seconds,
      // Only when the last stream has begun is the load what it is meant to be.
      warmupSeconds: Math.max(flags["warmup-seconds"], rampSeconds + 1),
      rampSeconds,
      warmRequests: flags["warm-requests"],
    };
    const repetitions = await interleave(arms, context, window, flags);
    const summaries = arms.flatMap(({ name }) => {
      const own = repetitions.filter(({ arm }) => arm === name);
      return own.length === 0 ? [] : [summarise(name, own)];
    });
    results.push({ stepMs, summaries, repetitions });
    printStep(
      flags.streams,
      flags.tokens,
      stepMs,
      summaries,
      cores.others !== null && !/[-,]/.test(cores.others),
    );
  }
  print(
    `\n${machineLine(machine)}; relay on ${cores.relay ?? "any core"}, rest on ${cores.others ?? "any core"}`,
  );
  await Deno.writeTextFile(
    flags.out,
    JSON.stringify({ at: new Date().toISOString(), machine, flags, results }),
  );
  print(`JSON: ${flags.out}`);
  return results.every(({ summaries }) =>
    summaries.length > 0 && ratios(summaries).every(({ holds }) => holds)
  );
}

async function availableArms(arms: readonly Arm[], context: Settings): Promise<Arm[]> {
  const available: Arm[] = [];
  for (const arm of arms) {
    const missing = await arm.unavailable(context);
    if (missing === null) available.push(arm);
    else note(`Arm "${arm.name}" is left out: ${missing}`);
  }
  return available;
}

async function interleave(
  arms: readonly Arm[],
  context: Settings,
  window: WindowOptions,
  { reps, retries }: { reps: number; retries: number },
): Promise<Repetition[]> {
  const done: Repetition[] = [];
  for (let rep = 1; rep <= reps; rep++) {
    for (const arm of arms) {
      try {
        done.push(await measureCalm(arm, context, window, retries, `${arm.name} ${rep}/${reps}`));
      } catch (error) {
        note(`${arm.name} ${rep}/${reps} failed: ${error instanceof Error ? error.message : error}`);
      }
    }
  }
  return done;
}

/** One repetition, tried again while other processes disturb it. The one they disturbed least. */
async function measureCalm(
  arm: Arm,
  context: Settings,
  window: WindowOptions,
  retries: number,
  title: string,
): Promise<Repetition> {
  let best: Repetition | null = null;
  for (let attempt = 0; attempt <= retries; attempt++) {
    const repetition = await measureArm(arm, context, window);
    const { cpuUsPerToken, load, foreignCores } = repetition;
    note(
      `${title}: ${load.tokens_per_s.toFixed(0)} tokens/s, ${cpuUsPerToken.toFixed(2)} µs/token, ` +
        `${load.errors_total} errors, others used ${(foreignCores * 100).toFixed(0)} % of a core`,
    );
    // An error is never tried away.
    if (load.errors_total > 0) return repetition;
    if (best === null || foreignCores < best.foreignCores) best = repetition;
    if (foreignCores <= FOREIGN_CORES) break;
  }
  if (best === null) throw new RangeError("The number of tries must be at least one");
  return best;
}

function printStep(
  streams: number,
  tokens: number,
  stepMs: number,
  summaries: readonly ArmSummary[],
  coresShared: boolean,
): void {
  print(`\n${streams} streams of ${tokens} tokens, ${stepMs} ms step\n\n${summaryTable(summaries)}\n`);
  for (const line of ratioLines(ratios(summaries))) print(line);
  for (const line of warnings(summaries, coresShared)) print(`note: ${line}`);
}

if (import.meta.main) await runBenchmark(main);
