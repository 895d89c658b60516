/** `tokenplane worker`: an engine behind a message node, joined to frontends. */
import { systemClock } from "../clock.ts";
import { formatHostPort, type HostPort } from "../config/host_port.ts";
import type { WorkerSettings } from "../config/schema/mod.ts";
import type { Logger } from "../observe/log.ts";
import type { Engine } from "../worker/engines/engine.ts";
import { MockEngine } from "../worker/engines/mock.ts";
import { OpenAiEngine } from "../worker/engines/openai.ts";
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

/** A worker that serves. */
export interface RunningWorker extends Running {
  readonly node: HostPort;
  /** Frontends that it is joined to now. */
  readonly joined: () => number;
}

/** What a worker needs whatever its engine is. */
export interface WorkerParts {
  readonly settings: StreamSettings & MockSettings;
  readonly nodeListen: HostPort;
  readonly advertiseHost: string | null;
  readonly frontends: readonly HostPort[];
  /** @param onStep to be called behind each decode step */
  readonly engine: (onStep: () => void) => Engine;
  readonly log: Logger;
}

/** Starts the worker of `tokenplane worker`. Throws `invalid_config` when its address cannot be had. */
export function startWorker(settings: WorkerSettings, log: Logger): Promise<RunningWorker> {
  const { nodeListen, advertiseHost, frontends, engineUrl } = settings;
  const engine = settings.engine === "openai" && engineUrl !== null
    ? () => new OpenAiEngine({ clock: systemClock, url: engineUrl, ...toOpenAiOptions(settings) })
    : (onStep: () => void) => newMock(settings, onStep);
  return runWorker({ settings, nodeListen, advertiseHost, frontends, engine, log });
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
    engine: (onStep) => newMock(settings, onStep),
    log,
  });
}

function newMock(settings: MockSettings, onStep: () => void): Engine {
  const step = settings.flush === "step" ? { onStep } : {};
  return new MockEngine({ clock: systemClock, ...toMockOptions(settings), ...step });
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
  try {
    await node.start();
    worker.start();
  } catch (caught) {
    await worker.close();
    throw caught;
  }
  return {
    node: node.address,
    joined: () => worker.status.frontends.filter((one) => one.joined).length,
    async drain(timeoutMs) {
      await worker.drain(timeoutMs);
    },
    close: () => worker.close(),
  };
}
