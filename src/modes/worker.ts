/** `tokenplane worker`: an engine behind a message node, joined to frontends. */
import { systemClock } from "../clock.ts";
import { formatHostPort, type HostPort } from "../config/host_port.ts";
import { findUnreachable } from "../config/rules.ts";
import type { WorkerSettings } from "../config/schema/mod.ts";
import type { Logger } from "../observe/log.ts";
import { addLoopDelayMetrics, LoopDelay } from "../observe/loop_delay.ts";
import { Collectors } from "../observe/metrics.ts";
import type { Engine } from "../worker/engines/engine.ts";
import { CachePublisher } from "../worker/cache_publisher.ts";
import type { CacheEvents } from "../worker/engines/mocker/block_manager.ts";
import { SimulatedEngine } from "../worker/engines/mocker/simulated_engine.ts";
import { MockEngine } from "../worker/engines/mock.ts";
import { OpenAiEngine } from "../worker/engines/openai.ts";
import { probeServer } from "../worker/engines/openai_probe.ts";
import { addWorkerMetrics } from "../worker/metrics.ts";
import { addSimulatedMetrics } from "../worker/simulated_metrics.ts";
import { WorkerNode } from "../worker/node.ts";
import { MessageNode } from "./message_node.ts";
import {
  type MockSettings,
  type StreamSettings,
  toMockOptions,
  toMuxOptions,
  toOpenAiOptions,
  toSimulatedOptions,
} from "./options.ts";
import type { Running } from "./running.ts";
import { startStatusServer, type StatusServer } from "./status_server.ts";

/** A word that nobody writes to, to wait on. */
const NEVER_WOKEN = new Int32Array(new SharedArrayBuffer(4));

/** A worker that serves. */
export interface RunningWorker extends Running {
  readonly node: HostPort;
  /** Frontends that it is joined to now. */
  readonly joined: () => number;
  /** Where it shows metrics and health; null when it does not. */
  readonly status: HostPort | null;
}

/** What a worker needs whatever its engine is. */
export interface WorkerParts {
  readonly settings: StreamSettings & MockSettings;
  readonly nodeListen: HostPort;
  readonly advertiseHost: string | null;
  readonly frontends: readonly HostPort[];
  /** Null: no metrics, no health. */
  readonly metricsListen: HostPort | null;
  readonly engine: (hooks: EngineHooks) => Engine;
  readonly log: Logger;
}

/** What an engine tells the worker it is part of. */
export interface EngineHooks {
  /** To be called behind each decode step. */
  readonly onStep: () => void;
  /** Where the cache of a logical worker is reported; to be asked for only by an engine that reports. */
  readonly cacheEvents: (virtualWorker: number) => CacheEvents;
}

/** Starts the worker of `tokenplane worker`. Throws `invalid_config` when its address cannot be had. */
export async function startWorker(settings: WorkerSettings, log: Logger): Promise<RunningWorker> {
  const { nodeListen, advertiseHost, frontends, metricsListen, engineUrl } = settings;
  const far = findUnreachable({ ...settings });
  if (far.length > 0) {
    log.warn("node_listen_is_loopback", {
      node_listen: formatHostPort(nodeListen),
      frontends: far.map(formatHostPort),
      advice: "Frontends on other machines cannot reach this worker: use --node-listen :0",
    });
  }
  const parts = { settings, nodeListen, advertiseHost, frontends, metricsListen, log };
  if (settings.engine !== "openai" || engineUrl === null) {
    return await runWorker({ ...parts, engine: (hooks) => newMock(settings, hooks) });
  }
  const engine = () => new OpenAiEngine({ clock: systemClock, url: engineUrl, ...toOpenAiOptions(settings) });
  const worker = await runWorker({ ...parts, engine });
  const probe = probeServer({ url: engineUrl, apiKey: settings.engineApiKey, log });
  return {
    ...worker,
    async close() {
      probe.cancel();
      await worker.close();
    },
  };
}

/** Starts a mock worker that joins one frontend over loopback. */
export function startMockWorker(
  settings: StreamSettings & MockSettings,
  frontend: HostPort,
  log: Logger,
): Promise<RunningWorker> {
  return runWorker({
    settings,
    nodeListen: { host: "127.0.0.1", port: 0 },
    advertiseHost: null,
    frontends: [frontend],
    metricsListen: null,
    engine: (hooks) => newMock(settings, hooks),
    log,
  });
}

function newMock(settings: MockSettings, { onStep, cacheEvents }: EngineHooks): Engine {
  const shared = {
    clock: systemClock,
    ...(settings.flush === "step" ? { onStep } : {}),
    ...(settings.mockPacing === "exact" ? { pause: pauseThread } : {}),
  };
  if (settings.mockTiming === "fixed") return new MockEngine({ ...shared, ...toMockOptions(settings) });
  const isReporting = settings.mockPrefixCaching === "on";
  return new SimulatedEngine({
    ...shared,
    ...toSimulatedOptions(settings),
    ...(isReporting ? { cacheEvents } : {}),
  });
}

/** Puts the isolate's thread to sleep. */
function pauseThread(ms: number): void {
  Atomics.wait(NEVER_WOKEN, 0, 0, ms);
}

async function runWorker(parts: WorkerParts): Promise<RunningWorker> {
  const { settings, log } = parts;
  const node = new MessageNode({
    listen: parts.nodeListen,
    advertiseHost: parts.advertiseHost,
    transport: settings.transport,
    mux: { ...toMuxOptions(settings), lanes: settings.lanes },
    log,
  });
  // Made when an engine asks for it: a worker that reports nothing has no handler that says so.
  let publisher: CachePublisher | null = null;
  const engine = parts.engine({
    onStep: () => node.plane.flushBatch(),
    cacheEvents: (virtualWorker) => {
      publisher ??= new CachePublisher({
        messenger: node.messenger,
        clock: systemClock,
        frontends: () => worker.joinedFrontends(),
      });
      return publisher.eventsOf(virtualWorker);
    },
  });
  const created = Math.floor(Date.now() / 1_000);
  const worker: WorkerNode = new WorkerNode({
    messenger: node.messenger,
    plane: node.plane,
    engine,
    clock: systemClock,
    frontends: parts.frontends.map(formatHostPort),
    models: settings.models.map((id) => ({ id, created, ownedBy: "tokenplane" })),
    maxRunning: settings.maxRunning,
    log,
  });
  let status: StatusServer | null = null;
  const close = async () => {
    publisher?.close();
    await worker.close();
    await status?.close();
  };
  try {
    await node.start();
    if (parts.metricsListen !== null) {
      status = await showStatus(parts.metricsListen, node, worker, engine, log);
    }
    worker.start();
  } catch (caught) {
    await close();
    throw caught;
  }
  return {
    status: status?.address ?? null,
    node: node.address,
    joined: () => worker.status.frontends.filter((one) => one.joined).length,
    async drain(timeoutMs) {
      await worker.drain(timeoutMs);
    },
    close,
  };
}

async function showStatus(
  where: HostPort,
  node: MessageNode,
  worker: WorkerNode,
  engine: Engine,
  log: Logger,
): Promise<StatusServer> {
  const collectors = new Collectors({ process: true });
  const loopDelay = new LoopDelay();
  addWorkerMetrics(collectors, worker, engine);
  if (engine instanceof SimulatedEngine) addSimulatedMetrics(collectors, engine);
  node.addMetrics(collectors);
  addLoopDelayMetrics(collectors, loopDelay, {});
  const server = await startStatusServer(where, {
    health() {
      const { state, frontends } = worker.status;
      if (state === "draining" || state === "closed") return "shutting_down";
      return frontends.some(({ joined }) => joined) ? "healthy" : "not_ready";
    },
    details: () => ({ models: worker.status.models, frontends: worker.status.frontends }),
    metrics: () => collectors.page(),
  }, log);
  loopDelay.start();
  return {
    address: server.address,
    close() {
      loopDelay.stop();
      return server.close();
    },
  };
}
