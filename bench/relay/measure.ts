/** One repetition of one arm: start everything, warm up, measure one window, stop everything. */

import { type LoadOptions, type LoadResult, runLoad } from "../support/load_client.ts";
import { OUT_DIR } from "../support/paths.ts";
import { machineBusySeconds, type Memory, treeCpuSeconds, treeMemory } from "../support/proc.ts";
import { type Arm, type ArmContext, type RunningArm, stopArm } from "./arms/arm.ts";
import { type LoopDelay, readLoopDelay } from "./loop_delay.ts";

/** What the client is to do in one repetition. */
export interface WindowOptions extends Pick<LoadOptions, "seconds" | "warmupSeconds" | "rampSeconds"> {
  /** Short requests before anything else: a server that has been up for a while, its code compiled. Default: none. */
  readonly warmRequests?: number;
}

/** Streams that warm up at a time. */
const WARM_STREAMS = 256;
/** Tokens of each: their cost is known to be steady early, that of requests is not. */
const WARM_TOKENS = 2;

/** One repetition, measured. CPU figures are of the window alone. */
export interface Repetition {
  readonly arm: string;
  readonly load: LoadResult;
  /** CPU of the relaying process, its threads and children, per token. */
  readonly cpuUsPerToken: number;
  /** Cores' worth of CPU used in the window. */
  readonly relayCores: number;
  readonly producerCores: number;
  readonly clientCores: number;
  /** By processes that are not part of the benchmark; anything above a little spoils the figures. */
  readonly foreignCores: number;
  /** Of the relay at the end of the window, bytes. */
  readonly memory: Memory;
  /** Of the frontend's event loop, when it reports it. */
  readonly loopDelay: LoopDelay | null;
}

interface Sample {
  readonly at: number;
  readonly relay: number;
  readonly producers: number;
  readonly machine: number;
}

/** Runs one repetition. Throws when the arm does not start or the client reports nothing. */
export async function measureArm(
  arm: Arm,
  settings: Omit<ArmContext, "scratch">,
  window: WindowOptions,
): Promise<Repetition> {
  await Deno.mkdir(OUT_DIR, { recursive: true });
  const scratch = await Deno.makeTempDir({ dir: OUT_DIR, prefix: "run-" });
  const context = { ...settings, scratch };
  try {
    const running = await arm.start(context);
    try {
      return await measureRunning(arm.name, running, context, window);
    } finally {
      await stopArm(running);
    }
  } finally {
    await Deno.remove(scratch, { recursive: true });
  }
}

async function measureRunning(
  name: string,
  running: RunningArm,
  context: ArmContext,
  window: WindowOptions,
): Promise<Repetition> {
  let begin: Sample | null = null;
  let end: Sample | null = null;
  let memory: Memory = { rss: 0, peak: 0 };
  const { isTls: tls = false, metricsPort } = running;
  const client = (tls ? context.native?.tlsClient : context.native?.client) ?? null;
  const readDelay = () => metricsPort === undefined ? Promise.resolve(null) : readLoopDelay(metricsPort);
  let loopDelay: Promise<LoopDelay | null> = Promise.resolve(null);
  const { warmRequests = 0, ...measured } = window;
  if (warmRequests > 0) {
    await runLoad({
      client,
      tls,
      port: running.port,
      streams: WARM_STREAMS,
      tokens: WARM_TOKENS,
      rounds: Math.ceil(warmRequests / WARM_STREAMS),
      cores: context.otherCores,
      deadlineSeconds: 60,
    });
  }
  const load = await runLoad({
    ...measured,
    client,
    tls,
    port: running.port,
    streams: context.streams,
    tokens: context.tokens,
    cores: context.otherCores,
    ...(context.openFiles === undefined ? {} : { openFiles: context.openFiles }),
    onBegin: () => {
      begin = takeSample(running);
      loopDelay = readDelay(); // this one only opens the interval
    },
    onEnd: () => {
      end = takeSample(running);
      loopDelay = loopDelay.then(readDelay);
      memory = treeMemory(running.relay.map((process) => process.pid));
    },
  });
  if (begin === null || end === null) throw new Error(`Cannot measure "${name}": the client named no window`);
  return {
    ...costs(begin, end, load),
    arm: name,
    load,
    memory,
    loopDelay: await loopDelay,
  };
}

function takeSample(running: RunningArm): Sample {
  return {
    at: performance.now(),
    relay: treeCpuSeconds(running.relay.map((process) => process.pid)),
    producers: treeCpuSeconds(running.producers.map((process) => process.pid)),
    machine: machineBusySeconds(),
  };
}

function costs(begin: Sample, end: Sample, load: LoadResult) {
  const seconds = (end.at - begin.at) / 1_000;
  const relay = end.relay - begin.relay;
  const producers = end.producers - begin.producers;
  const client = load.client_core_share * load.seconds;
  const foreign = end.machine - begin.machine - relay - producers - client;
  return {
    cpuUsPerToken: relay * 1e6 / load.tokens,
    relayCores: relay / seconds,
    producerCores: producers / seconds,
    clientCores: load.client_core_share,
    foreignCores: Math.max(0, foreign / seconds),
  };
}
