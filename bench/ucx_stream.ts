/**
 * `deno run -A bench/ucx_stream.ts`: what a token costs the frontend when it comes over UCX, beside TCP in the same run.
 * Frontend and worker are processes; both sides of each arm keep one lane per peer.
 */
import type { Arm, ArmContext } from "./relay/arms/arm.ts";
import { tokenplaneArm } from "./relay/arms/tokenplane.ts";
import { measureArm, type Repetition } from "./relay/measure.ts";
import { helpText, parseFlags } from "./support/flags.ts";
import { chooseCores, describeMachine, machineLine } from "./support/machine.ts";
import { buildNative, NO_COMPILER } from "./support/native.ts";
import { note, print } from "./support/print.ts";
import { median, range } from "./support/statistics.ts";
import { formatTable } from "./support/table.ts";
import { tokenplaneCommand, words } from "./support/tokenplane_command.ts";
import { runBenchmark, verdict } from "./support/verdict.ts";

/** UCX may cost the frontend this many times what TCP does. */
const BAR = 1.5;

const FLAGS = {
  streams: { default: 512, help: "concurrent streams" },
  tokens: { default: 100, help: "tokens per stream" },
  "step-ms": { default: 20, help: "time between two tokens of a stream" },
  seconds: { default: 5, help: "measured window" },
  "warmup-seconds": { default: 3, help: "before the window" },
  reps: { default: 3, help: "repetitions, interleaved; the median counts" },
  binary: { default: "", help: "a compiled tokenplane (default: main.ts)" },
  "frontend-flags": { default: "", help: "further flags of the frontend, separated by spaces" },
  "worker-flags": { default: "--flush step", help: "further flags of the worker, separated by spaces" },
} as const;

/** One transport. */
interface TransportArm {
  readonly arm: Arm;
  /** `UCX_TLS` of its processes. */
  readonly tls: string | null;
}

/** One repetition with what its batches held. */
interface Run extends Repetition {
  readonly recordsPerBatch: number;
}

function transportArm(name: string, transport: string, tls: string | null): TransportArm {
  const flags = ["--transport", transport, "--lanes", "1"];
  return { arm: tokenplaneArm(name, flags, flags), tls };
}

const ARMS: readonly TransportArm[] = [
  transportArm("tcp", "tcp", null),
  transportArm("ucx, tcp", "ucx", "tcp"),
  transportArm("ucx, shared memory", "ucx", "posix,sysv"),
];

async function measure({ arm, tls }: TransportArm, settings: Omit<ArmContext, "scratch">, flags: {
  seconds: number;
  "warmup-seconds": number;
}): Promise<Run> {
  // The processes inherit it.
  if (tls === null) Deno.env.delete("UCX_TLS");
  else Deno.env.set("UCX_TLS", tls);
  let recordsPerBatch = NaN;
  const counted: Arm = {
    ...arm,
    async start(context) {
      const running = await arm.start(context);
      const [relay] = running.relay;
      // Read when the load is over, before the frontend ends.
      const stop = relay!.stop.bind(relay);
      relay!.stop = async () => {
        recordsPerBatch = await readRecordsPerBatch(running.port).catch(() => NaN);
        await stop();
      };
      return running;
    },
  };
  const window = { seconds: flags.seconds, warmupSeconds: flags["warmup-seconds"] };
  const repetition = await measureArm(counted, settings, window);
  return { ...repetition, recordsPerBatch };
}

/** Records per batch that the frontend has received. */
async function readRecordsPerBatch(port: number): Promise<number> {
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const read = (part: string) =>
    Number(
      new RegExp(`^velo_streaming_mux_records_per_batch_${part}\\{direction="received"\\} (\\S+)$`, "m")
        .exec(page)?.[1],
    );
  return read("sum") / read("count");
}

async function main(args: readonly string[]): Promise<boolean> {
  if (args.includes("--help")) return print(helpText("deno run -A bench/ucx_stream.ts", FLAGS)), true;
  const flags = parseFlags(args, FLAGS);
  const native = await buildNative();
  if (native === null) note(`${NO_COMPILER}; the client is the portable one`);
  const cores = await chooseCores();
  const settings = {
    native,
    tokenplane: tokenplaneCommand(flags.binary),
    tokens: flags.tokens,
    stepMs: flags["step-ms"],
    ttftMs: 10,
    eventBytes: 170,
    streams: flags.streams,
    relayCores: cores.relay,
    otherCores: cores.others,
    frontendFlags: words(flags["frontend-flags"]),
    workerFlags: words(flags["worker-flags"]),
  };
  const runs = new Map<string, Run[]>(ARMS.map(({ arm }) => [arm.name, []]));
  for (let rep = 0; rep < flags.reps; rep++) {
    for (const one of ARMS) runs.get(one.arm.name)!.push(await measure(one, settings, flags));
  }
  print(
    `${flags.streams} streams of ${flags.tokens} tokens, ${
      flags["step-ms"]
    } ms step, median of ${flags.reps}`,
  );
  print(`\n${formatTable(HEADER, [...runs].map(([name, own]) => row(name, own)))}\n`);
  const cost = (name: string) => median(runs.get(name)!.map(({ cpuUsPerToken }) => cpuUsPerToken));
  let holds = [...runs.values()].flat().every(({ load }) => load.errors_total === 0);
  for (const { arm: { name }, tls } of ARMS) {
    if (tls === null) continue;
    const ratio = cost(name) / cost("tcp");
    if (!verdict(ratio <= BAR, `${name}: ${ratio.toFixed(2)} times the CPU per token of TCP (bar ${BAR})`)) {
      holds = false;
    }
  }
  print(machineLine(describeMachine()));
  return holds;
}

const HEADER = [
  ...["transport", "tokens/s", "frontend CPU µs/token", "(min–max)", "worker CPU µs/token"],
  ...["records per batch", "gap p99 ms", "TTFT p50 ms", "others, cores", "errors"],
];

function row(name: string, runs: readonly Run[]): string[] {
  const mid = (pick: (run: Run) => number) => median(runs.map(pick));
  const { min, max } = range(runs.map(({ cpuUsPerToken }) => cpuUsPerToken));
  return [
    name,
    mid(({ load }) => load.tokens_per_s).toFixed(0),
    mid(({ cpuUsPerToken }) => cpuUsPerToken).toFixed(2),
    `${min.toFixed(2)}–${max.toFixed(2)}`,
    mid(({ load, producerCores }) => producerCores * 1e6 / load.tokens_per_s).toFixed(2),
    mid(({ recordsPerBatch }) => recordsPerBatch).toFixed(1),
    mid(({ load }) => load.gap_ms.p99).toFixed(1),
    mid(({ load }) => load.ttft_ms.p50).toFixed(1),
    mid(({ foreignCores }) => foreignCores).toFixed(2),
    String(runs.reduce((sum, { load }) => sum + load.errors_total, 0)),
  ];
}

if (import.meta.main) await runBenchmark(main);
