/** The module of one mock worker's isolate; `start.ts` speaks to it. */
import type { HostPort } from "../config/host_port.ts";
import { toTokenplaneError } from "../errors.ts";
import { createLogger } from "../observe/log.ts";
import type { MockSettings, StreamSettings } from "./options.ts";
import { type RunningWorker, startMockWorker } from "./worker.ts";

/** What `start.ts` says. */
export type IsolateCommand =
  | {
    readonly kind: "start";
    readonly settings: StreamSettings & MockSettings;
    readonly frontend: HostPort;
    readonly index: number;
    /** Of the frontend: it is joined when it is joined to all of them. */
    readonly shards: number;
  }
  | { readonly kind: "close" };

/** What the isolate says. `loaded` comes first; nothing may be said to it before. */
export type IsolateEvent =
  | { readonly kind: "loaded" }
  | { readonly kind: "joined" }
  | { readonly kind: "failed"; readonly message: string }
  | { readonly kind: "closed" };

/** How often it looks whether it is joined, ms. */
const JOIN_POLL_MS = 10;
/** How long taking leave may take, ms. */
const LEAVE_MS = 500;

interface IsolateScope {
  onmessage: ((event: MessageEvent<IsolateCommand>) => void) | null;
  postMessage(event: IsolateEvent): void;
}

const scope = globalThis as unknown as IsolateScope;
let running: RunningWorker | null = null;

scope.onmessage = ({ data }) => {
  const done = data.kind === "start" ? start(data) : close();
  done.catch((caught) => scope.postMessage({ kind: "failed", message: toTokenplaneError(caught).message }));
};

// A message that comes while a module below still awaits something at its top level would reach nobody.
scope.postMessage({ kind: "loaded" });

async function start(
  { settings, frontend, index, shards }: Extract<IsolateCommand, { kind: "start" }>,
): Promise<void> {
  const log = createLogger({ level: settings.logLevel, format: settings.logFormat }).child({ worker: index });
  running = await startMockWorker(settings, frontend, log);
  while (running.joined() < shards) await new Promise((resolve) => setTimeout(resolve, JOIN_POLL_MS));
  scope.postMessage({ kind: "joined" });
}

async function close(): Promise<void> {
  // The frontend has drained, so nothing runs; this tells it that the worker leaves and is not lost.
  await running?.drain(LEAVE_MS);
  await running?.close();
  scope.postMessage({ kind: "closed" });
}
