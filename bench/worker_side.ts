/**
 * `deno task bench:worker`: what packing and writing a token costs the worker: slots, batches, lane writes, and credit
 * coming back. That is what its process costs, less what the mock engine costs in a process of its own with nobody behind
 * it (which is a little cheaper there, as nothing else is in the caches). Streams are long, so that requests hardly count.
 */

import { tokenplaneArm } from "./relay/arms/tokenplane.ts";
import { measureArm, type Repetition } from "./relay/measure.ts";
import { helpText, parseFlags, toNumbers } from "./support/flags.ts";
import { chooseCores, describeMachine, machineLine } from "./support/machine.ts";
import { buildNative, NO_COMPILER } from "./support/native.ts";
import { note, print } from "./support/print.ts";
import { mockCost } from "./support/mock_alone.ts";
import { median } from "./support/statistics.ts";
import { tokenplaneCommand, words } from "./support/tokenplane_command.ts";
import { runBenchmark, verdict } from "./support/verdict.ts";

/** Microseconds of the worker's CPU per token, without the engine's. */
const BAR_US = 1.5;

const FLAGS = {
  streams: { default: 512, help: "concurrent streams, all to one frontend" },
  tokens: { default: 1_000, help: "tokens per stream" },
  "step-ms": {
    default: "20,5",
    help: "time between two tokens of a stream; a list runs one after the other",
  },
  seconds: { default: 6, help: "measured window" },
  reps: { default: 3, help: "repetitions" },
  binary: { default: "", help: "a compiled tokenplane (default: main.ts)" },
  "worker-flags": { default: "", help: "further flags of the worker, separated by spaces" },
} as const;

async function main(args: readonly string[]): Promise<boolean> {
  if (args.includes("--help")) return print(helpText("deno task bench:worker", FLAGS)), true;
  const flags = parseFlags(args, FLAGS);
  const native = await buildNative();
  if (native === null) note(`${NO_COMPILER}; the client is the portable one`);
  const cores = await chooseCores();
  let holds = true;
  for (const stepMs of toNumbers("step-ms", flags["step-ms"])) {
    const settings = {
      native,
      tokenplane: tokenplaneCommand(flags.binary),
      tokens: flags.tokens,
      stepMs,
      ttftMs: 10,
      eventBytes: 0,
      streams: flags.streams,
      relayCores: cores.relay,
      otherCores: cores.others,
      workerFlags: words(flags["worker-flags"]),
    };
    const whole: number[] = [];
    const engine: number[] = [];
    for (let rep = 0; rep < flags.reps; rep++) {
      const arm = tokenplaneArm("tokenplane", [], ["--flush", "step"]);
      whole.push(workerCost(await measureArm(arm, settings, { seconds: flags.seconds, warmupSeconds: 3 })));
      engine.push(await mockCost(flags.streams, stepMs, flags.seconds, cores.others));
    }
    const cost = median(whole) - median(engine);
    const text =
      `packing and writing ${cost.toFixed(2)} µs per token at a ${stepMs} ms step (bar ${BAR_US}): ` +
      `worker ${median(whole).toFixed(2)}, mock engine alone ${median(engine).toFixed(2)}`;
    holds = verdict(cost <= BAR_US, text) && holds;
  }
  print(machineLine(describeMachine()));
  return holds;
}

/** CPU of the worker's process per token that arrived, µs. */
function workerCost({ producerCores, load }: Repetition): number {
  return producerCores * 1e6 / load.tokens_per_s;
}

if (import.meta.main) await runBenchmark(main);
