/**
 * `deno run -A bench/ucx_bench.ts`: microseconds and CPU per message between two processes, UCX over shared memory and
 * over TCP beside our own TCP transport, interleaved in one run; and what an idle pair costs.
 */
import { introduce, type PeerOptions, PeerProcess } from "../tests/support/peer_process.ts";
import { helpText, parseFlags } from "./support/flags.ts";
import { chooseCores, describeMachine, machineLine } from "./support/machine.ts";
import { print } from "./support/print.ts";
import { runBenchmark, verdict } from "./support/verdict.ts";

const FLAGS = {
  messages: { default: 200_000, help: "messages per run" },
  bytes: { default: 4_096, help: "payload of a message" },
  reps: { default: 3, help: "repetitions, interleaved; the median counts" },
  "idle-seconds": { default: 5, help: "how long the idle pair is watched" },
} as const;

interface Arm {
  readonly name: string;
  readonly options: Pick<PeerOptions, "transport" | "env">;
  /** Twice what a bare prototype without admission, peers or copies takes, µs; null is no bar. */
  readonly barUs: number | null;
}

const ARMS: readonly Arm[] = [
  { name: "ucx, shared memory", options: { transport: "ucx", env: { UCX_TLS: "posix,sysv" } }, barUs: 1 },
  { name: "ucx, tcp", options: { transport: "ucx", env: { UCX_TLS: "tcp" } }, barUs: 5.2 },
  { name: "tcp, one lane", options: { transport: "tcp" }, barUs: null },
];

interface Run {
  readonly wallUs: number;
  readonly senderCpuUs: number;
  readonly receiverCpuUs: number;
}

async function measure(arm: Arm, messages: number, bytes: number): Promise<Run> {
  const cores = await chooseCores();
  const core = (cores: string | null) => cores === null ? {} : { core: cores };
  await using receiver = await PeerProcess.start({ ...arm.options, ...core(cores.relay) });
  await using sender = await PeerProcess.start({ ...arm.options, ...core(cores.others) });
  await introduce(sender, receiver);
  // As many again: the compiler shares the pinned core, and after a tenth it had not finished.
  const warmup = messages;
  await sender.ask({ do: "flood", to: "b", count: warmup, bytes });
  await receiver.ask({ do: "await", frames: warmup });
  const arrived = receiver.ask({ do: "await", frames: warmup + messages });
  const sent = await sender.ask({ do: "flood", to: "b", count: messages, bytes });
  const received = await arrived;
  const perMessage = (ms: number | undefined) => (ms ?? NaN) * 1_000 / messages;
  return {
    wallUs: perMessage(Math.max(sent.ms ?? 0, received.ms ?? 0)),
    senderCpuUs: perMessage(sent.cpuMs),
    receiverCpuUs: perMessage(received.cpuMs),
  };
}

/** CPU of a connected pair with nothing to do, in % of a core per process. */
async function measureIdle(arm: Arm, seconds: number): Promise<number> {
  await using a = await PeerProcess.start(arm.options);
  await using b = await PeerProcess.start(arm.options);
  await introduce(a, b);
  await a.ask({ do: "flood", to: "b", count: 10, bytes: 100 });
  await b.ask({ do: "flood", to: "a", count: 10, bytes: 100 });
  await a.ask({ do: "sleep", ms: 500 });
  const reports = await Promise.all([a, b].map((peer) => peer.ask({ do: "sleep", ms: seconds * 1_000 })));
  return Math.max(...reports.map(({ cpuMs, ms }) => 100 * cpuMs! / ms!));
}

function median(runs: readonly Run[], of: (run: Run) => number): number {
  const sorted = runs.map(of).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

async function main(args: readonly string[]): Promise<boolean> {
  if (args.includes("--help")) {
    print(helpText("deno run -A bench/ucx_bench.ts", FLAGS));
    return true;
  }
  const flags = parseFlags(args, FLAGS);
  const runs = new Map<Arm, Run[]>(ARMS.map((arm) => [arm, []]));
  for (let rep = 0; rep < flags.reps; rep++) {
    for (const arm of ARMS) runs.get(arm)!.push(await measure(arm, flags.messages, flags.bytes));
  }
  print(`${flags.messages} messages of ${flags.bytes} bytes, median of ${flags.reps}`);
  print("| transport | µs per message | sender CPU µs | receiver CPU µs | idle % of a core |");
  print("|---|---|---|---|---|");
  let holds = true;
  const verdicts: (() => void)[] = [];
  for (const [arm, of] of runs) {
    const wall = median(of, (run) => run.wallUs);
    const idle = await measureIdle(arm, flags["idle-seconds"]);
    const cells = [
      arm.name,
      wall.toFixed(2),
      median(of, (run) => run.senderCpuUs).toFixed(2),
      median(of, (run) => run.receiverCpuUs).toFixed(2),
      idle.toFixed(2),
    ];
    print(`| ${cells.join(" | ")} |`);
    if (arm.barUs === null) continue;
    const bar = arm.barUs;
    verdicts.push(() => {
      if (!verdict(wall <= bar, `${arm.name}: ${wall.toFixed(2)} µs per message (bar ${bar})`)) holds = false;
      if (!verdict(idle < 1, `${arm.name}: ${idle.toFixed(2)} % of a core idle (bar 1)`)) holds = false;
    });
  }
  for (const say of verdicts) say();
  print(machineLine(describeMachine()));
  return holds;
}

if (import.meta.main) await runBenchmark(main);
