/**
 * `deno task bench:stream`: what the frontend's CPU costs per token, frontend and worker in separate processes, one
 * frontend isolate, beside the floor in the same run.
 */

import { measureArm, type Repetition } from "./relay/measure.ts";
import { floorArm } from "./relay/arms/floor.ts";
import { tokenplaneArm } from "./relay/arms/tokenplane.ts";
import { summaryTable } from "./relay/report.ts";
import { summarise, warnings } from "./relay/summary.ts";
import { helpText, parseFlags } from "./support/flags.ts";
import { chooseCores, describeMachine, machineLine } from "./support/machine.ts";
import { buildNative, NO_COMPILER } from "./support/native.ts";
import { note, print } from "./support/print.ts";
import { tokenplaneCommand, words } from "./support/tokenplane_command.ts";
import { runBenchmark, verdict } from "./support/verdict.ts";

/** Over this many microseconds per token something has broken the straight line of a token. */
const BAR_US = 12;

const FLAGS = {
  streams: { default: 512, help: "concurrent streams" },
  tokens: { default: 100, help: "tokens per stream" },
  "step-ms": { default: 20, help: "time between two tokens of a stream" },
  "ttft-ms": { default: 10, help: "time to the first token" },
  "event-bytes": { default: 170, help: "size of one event of the floor" },
  seconds: { default: 6, help: "measured window" },
  "warmup-seconds": { default: 3, help: "before the window" },
  "warm-requests": {
    default: 20_000,
    help: "short requests before the warm-up: about a minute of this load",
  },
  reps: { default: 1, help: "repetitions, interleaved" },
  binary: { default: "", help: "a compiled tokenplane (default: main.ts)" },
  "frontend-flags": { default: "", help: "further flags of the frontend, separated by spaces" },
} as const;

async function main(args: readonly string[]): Promise<boolean> {
  if (args.includes("--help")) return print(helpText("deno task bench:stream", FLAGS)), true;
  const flags = parseFlags(args, FLAGS);
  const native = await buildNative();
  if (native === null) note(`${NO_COMPILER}; there is no floor, and the client is the portable one`);
  const cores = await chooseCores();
  const settings = {
    native,
    tokenplane: tokenplaneCommand(flags.binary),
    tokens: flags.tokens,
    stepMs: flags["step-ms"],
    ttftMs: flags["ttft-ms"],
    eventBytes: flags["event-bytes"],
    streams: flags.streams,
    relayCores: cores.relay,
    otherCores: cores.others,
    frontendFlags: words(flags["frontend-flags"]),
  };
  const window = {
    seconds: flags.seconds,
    warmupSeconds: flags["warmup-seconds"],
    warmRequests: flags["warm-requests"],
  };
  const arms = [...native === null ? [] : [floorArm], tokenplaneArm("tokenplane", [])];
  const repetitions: Repetition[] = [];
  for (let rep = 0; rep < flags.reps; rep++) {
    for (const arm of arms) repetitions.push(await measureArm(arm, settings, window));
  }
  const summaries = arms.map(({ name }) => summarise(name, repetitions.filter(({ arm }) => arm === name)));
  print(`${flags.streams} streams of ${flags.tokens} tokens, ${flags["step-ms"]} ms step`);
  print(`\n${summaryTable(summaries)}\n`);
  const [ours, floor] = [summaries.at(-1), native === null ? undefined : summaries[0]];
  const cost = ours?.cpuUsPerToken ?? NaN;
  const beside = floor === undefined ? "" : `, the floor ${floor.cpuUsPerToken.toFixed(2)} µs`;
  const holds = verdict(cost <= BAR_US, `frontend ${cost.toFixed(2)} µs per token (bar ${BAR_US})${beside}`);
  for (const line of warnings(summaries, cores.others !== null)) print(`note: ${line}`);
  print(machineLine(describeMachine()));
  return holds && summaries.every(({ errors }) => errors === 0);
}

if (import.meta.main) await runBenchmark(main);
