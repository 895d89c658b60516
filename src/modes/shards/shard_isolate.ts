/** The module of one shard's isolate: a whole frontend, that only asks its supervisor about the others. */
import { toTokenplaneError } from "../../errors.ts";
import { DescriptorTable } from "../../frontend/egress/descriptor_table.ts";
import { useDescriptorTable } from "../../frontend/egress/direct_send.ts";
import { KeyMemory } from "../../frontend/keys/key_memory.ts";
import { createLogger } from "../../observe/log.ts";
import { LoadBoard } from "../../routing/load_board.ts";
import type { CredentialHost } from "../credentials.ts";
import { type LocalFrontend, startFrontend } from "../frontend.ts";
import type { ProcessState, ShardCommand, ShardEvent, ShardStart } from "./messages.ts";
import { Scrapes } from "./scrapes.ts";

/** How long a shard that was started again waits for the workers that the others have, ms. */
const REJOIN_TIMEOUT_MS = 5_000;
const REJOIN_POLL_MS = 10;

interface IsolateScope {
  onmessage: ((event: MessageEvent<ShardCommand>) => void) | null;
  postMessage(event: ShardEvent): void;
}

const scope = globalThis as unknown as IsolateScope;
let process: ProcessState = { models: [], shards: [] };
let running: LocalFrontend | null = null;
let credentials: CredentialHost | null = null;
let scrapes: Scrapes | null = null;
let lastOffer = "";

scope.onmessage = ({ data }) => {
  handle(data).catch((caught) => {
    const { code, message } = toTokenplaneError(caught);
    scope.postMessage({ kind: "failed", code, message });
  });
};

// A message that comes while a module below still awaits something at its top level would reach nobody.
scope.postMessage({ kind: "loaded" });

async function handle(command: ShardCommand): Promise<void> {
  switch (command.kind) {
    case "start":
      return await start(command);
    case "process":
      process = command.process;
      return;
    case "certificate":
      return credentials?.onCertificate(command.certificate);
    case "keys":
      return credentials?.onKeys(command.keys);
    case "collect": {
      const series = await running?.series() ?? [];
      return scope.postMessage({ kind: "collected", id: command.id, series });
    }
    case "page":
      return scrapes?.handlePage(command.id, command.page);
    case "drain":
      await running?.drain(command.timeoutMs);
      return scope.postMessage({ kind: "drained" });
    case "close":
      await running?.close();
      return scope.postMessage({ kind: "closed" });
  }
}

async function start(command: ShardStart): Promise<void> {
  const { settings, index, http, nodeListen, advertiseHost, certificate, keys, keyMemory } = command;
  process = command.process;
  useDescriptorTable(new DescriptorTable(command.descriptors));
  const log = createLogger({ level: settings.logLevel, format: settings.logFormat }).child({ shard: index });
  const { columns, column, shared } = keyMemory;
  const access = {
    certificate,
    keys: { set: keys, memory: new KeyMemory(columns, shared), column },
    onMade: (host: CredentialHost) => void (credentials = host),
  };
  const frontend = await startFrontend(
    { ...settings, listen: http },
    { nodeListen, advertiseHost },
    log,
    access,
    {
      index,
      board: new LoadBoard(command.board, settings.shards, index),
      models: () => process.models,
      shards: () => process.shards,
      metrics: (own) => {
        scrapes ??= new Scrapes((id) => scope.postMessage({ kind: "scrape", id }), own);
        return scrapes.page();
      },
      onWorkers: (models, workers) => {
        const offer = JSON.stringify([models, workers]);
        if (offer === lastOffer) return;
        lastOffer = offer;
        scope.postMessage({ kind: "offer", models, workers });
      },
      async onListening(node, models) {
        scope.postMessage({ kind: "listening", node });
        if (command.isRestart) await untilServed(models);
      },
    },
  );
  running = frontend;
  scope.postMessage({ kind: "accepting", http: frontend.http });
}

/** Clients that come before the workers do would be told that their model is unknown. */
async function untilServed(models: () => readonly { readonly id: string }[]): Promise<void> {
  const wanted = process.models;
  const until = performance.now() + REJOIN_TIMEOUT_MS;
  while (performance.now() < until) {
    const served = new Set(models().map(({ id }) => id));
    if (wanted.every(({ id }) => served.has(id))) return;
    await new Promise((resolve) => setTimeout(resolve, REJOIN_POLL_MS));
  }
}
