/** `tokenplane worker`: an engine behind a message node, joined to frontends. */
import { systemClock } from "../clock.ts";
import { formatHostPort, type HostPort } from "../config/host_port.ts";
import { findUnreachable } from "../config/rules.ts";
import type { WorkerSettings } from "../config/schema/mod.ts";
import type { Logger } from "../observe/log.ts";
import { addLoopDelayMetrics, LoopDelay } from "../observe/loop_delay.ts";
import { Collectors } from "../observe/metrics.ts";
import type { Engine } from "../worker/engines/engine.ts";
import { MockEngine } from "../worker/engines/mock.ts";
import { OpenAiEngine } from "../worker/engines/openai.ts";
import { probeServer } from "../worker/engines/openai_probe.ts";
import { addWorkerMetrics } from "../worker/metrics.ts";
import { WorkerNode } from "../worker/node.ts";
import { MessageNode } from "./message_node.ts";
import {
  type MockSettings,
  type StreamSettings,
  toMockOptions,
  toMuxOptions,
  toOpenAiOptions,
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
  /** @param onStep to be called behind each decode step */
  readonly engine: (onStep: () => void) => Engine;
  readonly log: Logger;
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
    return await runWorker({ ...parts, engine: (onStep) => newMock(settings, onStep) });
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
    engine: (onStep) => newMock(settings, onStep),
    log,
  });
}

function newMock(settings: MockSettings, onStep: () => void): Engine {
  return new MockEngine({
    clock: systemClock,
    ...toMockOptions(settings),
    ...(settings.flush === "step" ? { onStep } : {}),
    ...(settings.mockPacing === "exact" ? { pause: pauseThread } : {}),
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
  const engine = parts.engine(() => node.plane.flushBatch());
  const created = Math.floor(Date.now() / 1_000);
  const worker = new WorkerNode({
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
