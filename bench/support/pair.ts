/** One frontend and one worker with a mock engine, under a memory watch, for the benchmarks of one property. */

import { type RunningArm, stopArm } from "../relay/arms/arm.ts";
import { tokenplaneArm } from "../relay/arms/tokenplane.ts";
import type { LoadOptions } from "./load_client.ts";
import { chooseCores, describeMachine, machineLine } from "./machine.ts";
import { buildNative, NO_COMPILER } from "./native.ts";
import { OUT_DIR } from "./paths.ts";
import { print } from "./print.ts";
import { machineBusySeconds, treeCpuSeconds, treeMemory } from "./proc.ts";
import { tokenplaneCommand, words } from "./tokenplane_command.ts";

/** Flags that every benchmark on a pair has. */
export const PAIR_FLAGS = {
  binary: { default: "", help: "a compiled tokenplane (default: main.ts)" },
  "frontend-flags": { default: "", help: "further flags of the frontend, separated by spaces" },
  "worker-flags": { default: "", help: "further flags of the worker, separated by spaces" },
} as const;

const WATCH_MS = 250;

/** What a pair is started with. */
export interface PairOptions {
  readonly flags: { readonly [K in keyof typeof PAIR_FLAGS]: string };
  readonly streams: number;
  readonly tokens: number;
  readonly stepMs: number;
  /** Of each process. */
  readonly openFiles: number;
}

/** A running pair. */
export interface Pair {
  /** What every client on it is started with. */
  readonly client: Pick<LoadOptions, "client" | "port" | "cores" | "openFiles">;
  /** Frontend's resident memory now, bytes. */
  memoryNow(): number;
  /** The highest so far, bytes. */
  memoryPeak(): number;
}

/** Starts a pair, uses it, stops it. Throws without a C compiler: the portable client cannot do these jobs. */
export async function withPair<T>(options: PairOptions, use: (pair: Pair) => Promise<T>): Promise<T> {
  const native = await buildNative();
  if (native === null) throw new Error(NO_COMPILER);
  const cores = await chooseCores();
  const running = await tokenplaneArm("tokenplane", []).start({
    native,
    tokenplane: tokenplaneCommand(options.flags.binary),
    tokens: options.tokens,
    stepMs: options.stepMs,
    ttftMs: 0,
    eventBytes: 0,
    streams: options.streams,
    relayCores: cores.relay,
    otherCores: cores.others,
    scratch: OUT_DIR,
    openFiles: options.openFiles,
    frontendFlags: words(options.flags["frontend-flags"]),
    workerFlags: words(options.flags["worker-flags"]),
  });
  const watch = new MemoryWatch(running);
  const [start, foreign] = [performance.now(), foreignCpuSeconds()];
  try {
    return await use({
      client: {
        client: native.client,
        port: running.port,
        cores: cores.others,
        openFiles: options.openFiles,
      },
      memoryNow: () => watch.now(),
      memoryPeak: () => watch.peak(),
    });
  } finally {
    watch.stop();
    const share = (foreignCpuSeconds() - foreign) * 1_000 / (performance.now() - start);
    print(`note: processes that are not part of this used ${Math.round(share * 100)} % of a core`);
    await stopArm(running);
    print(machineLine(describeMachine()));
  }
}

/** CPU of everything on the machine but this program and what it started, clients that ended included. */
function foreignCpuSeconds(): number {
  return machineBusySeconds() - treeCpuSeconds([Deno.pid]);
}

class MemoryWatch {
  readonly #pids: readonly number[];
  readonly #timer: ReturnType<typeof setInterval>;
  #highest = 0;

  constructor(running: RunningArm) {
    this.#pids = running.relay.map((process) => process.pid);
    this.#timer = setInterval(() => this.now(), WATCH_MS);
  }

  now(): number {
    const { rss } = treeMemory(this.#pids);
    this.#highest = Math.max(this.#highest, rss);
    return rss;
  }

  peak(): number {
    return Math.max(this.#highest, treeMemory(this.#pids).peak);
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
