/**
 * Runs the shards of a frontend: starts them, tells each what all have, starts again what died. Carries no request.
 *
 * Shard N listens for workers on the port of `--node-listen` and N, or on any when that is 0.
 * The shard that `--node-listen` leads to starts last: when a worker can find it, all the others are there to be named.
 */
import { formatHostPort, type HostPort } from "../../config/host_port.ts";
import type { FrontendSettings, StartSettings } from "../../config/schema/mod.ts";
import { TokenplaneError } from "../../errors.ts";
import type { Logger } from "../../observe/log.ts";
import { Collectors } from "../../observe/metrics.ts";
import { LoadBoard } from "../../routing/load_board.ts";
import type { ModelCard } from "../../routing/worker.ts";
import type { Credentials } from "../credentials.ts";
import type { NodeAddress, RunningFrontend } from "../frontend.ts";
import { Collection } from "./collection.ts";
import { KeyColumns } from "./key_columns.ts";
import type { ProcessState, ShardCommand } from "./messages.ts";
import { Shard, type ShardHost } from "./shard.ts";

/** What a shard may take beyond the drain's own time to say that it has drained, ms. */
const DRAIN_SLACK_MS = 2_000;
/** What a shard may take to close, ms; then it is cut off. */
const CLOSE_TIMEOUT_MS = 5_000;
const MIN_RESTART_MS = 100;
const MAX_RESTART_MS = 5_000;
/** A shard that has served for so long has its back-off forgotten, ms. */
const STEADY_MS = 30_000;

interface Place {
  shard: Shard | null;
  /** Where its workers found it; a new shard tries the same. */
  node: HostPort | null;
  /** In a row. */
  deaths: number;
  startedMs: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/** See above. */
export class Supervisor implements RunningFrontend, ShardHost {
  readonly #settings: FrontendSettings | StartSettings;
  readonly #address: NodeAddress;
  readonly #log: Logger;
  readonly #credentials: Credentials;
  readonly #columns: KeyColumns;
  readonly #places: Place[];
  readonly #board: SharedArrayBuffer;
  readonly #collectors = new Collectors({ process: true });
  readonly #collection: Collection;
  #http: HostPort;
  #process: ProcessState = { models: [], shards: [] };
  #restarts: number[];
  #isServing = false;
  #isStopping = false;

  private constructor(
    settings: FrontendSettings | StartSettings,
    address: NodeAddress,
    log: Logger,
    credentials: Credentials,
  ) {
    // The shards know the keys by their digests alone.
    this.#settings = { ...settings, apiKeys: [] };
    this.#credentials = credentials;
    this.#columns = new KeyColumns(credentials.memory, settings.shards);
    this.#address = address;
    this.#log = log;
    this.#http = settings.listen;
    this.#board = LoadBoard.allocate(settings.maxWorkers, settings.shards);
    this.#places = Array.from(
      { length: settings.shards },
      () => ({ shard: null, node: null, deaths: 0, startedMs: 0, timer: undefined }),
    );
    this.#restarts = this.#places.map(() => 0);
    this.#collection = new Collection({
      own: this.#collectors,
      count: settings.shards,
      shards: () => this.#shards(),
      log,
    });
    this.#collectors.add(
      "tokenplane_shard_restarts_total",
      "Times that a shard was started again after it had died.",
      "counter",
      (emit) => this.#restarts.forEach((count, index) => emit(count, { shard: String(index) })),
    );
    credentials.addMetrics(this.#collectors);
  }

  /** Resolves when every shard serves; closes the credentials with them. Throws `invalid_config` when an address cannot be had; nothing runs then. */
  static async start(
    settings: FrontendSettings | StartSettings,
    address: NodeAddress,
    log: Logger,
    credentials: Credentials,
  ): Promise<Supervisor> {
    checkPortsAreFree([settings.listen, ...nodeAddresses(address.nodeListen, settings.shards)]);
    const supervisor = new Supervisor(settings, address, log, credentials);
    credentials.tell({
      onCertificate: (certificate) => supervisor.#send({ kind: "certificate", certificate }),
      onKeys: (keys) => supervisor.#send({ kind: "keys", keys }),
    });
    try {
      const last = settings.shards - 1;
      await supervisor.#spawn(last);
      await Promise.all(Array.from({ length: Math.max(0, last - 1) }, (_, i) => supervisor.#spawn(i + 1)));
      if (last > 0) await supervisor.#spawn(0);
    } catch (caught) {
      await supervisor.close();
      throw caught;
    }
    supervisor.#isServing = true;
    return supervisor;
  }

  get http(): HostPort {
    return this.#http;
  }

  get node(): HostPort {
    return this.#places[0]!.node ?? this.#address.nodeListen;
  }

  get shards(): number {
    return this.#places.length;
  }

  workers(): number {
    return Math.max(0, ...this.#shards().map((shard) => shard.workers));
  }

  /** Cuts a shard off, as a fault in it would; it is started again. */
  terminate(index: number): void {
    this.#places[index]?.shard?.terminate();
  }

  async drain(timeoutMs: number): Promise<void> {
    this.#stop();
    await Promise.all(this.#shards().map((shard) => shard.drain(timeoutMs, timeoutMs + DRAIN_SLACK_MS)));
  }

  async close(): Promise<void> {
    this.#stop();
    this.#credentials.close();
    await Promise.all(this.#shards().map((shard) => shard.close(CLOSE_TIMEOUT_MS)));
  }

  onChange(): void {
    const accepting = this.#shards().filter((shard) => shard.isAccepting);
    this.#process = { models: commonModels(accepting.map((shard) => shard.models)), shards: this.#nodes() };
    this.#send({ kind: "process", process: this.#process });
  }

  onScrape(shard: Shard, id: number): void {
    this.#collection.page().then(
      (page) => shard.send({ kind: "page", id, page }),
      (error: unknown) => this.#log.error("metrics_failed", { error }),
    );
  }

  onCollected(shard: Shard, { id, series }: Parameters<ShardHost["onCollected"]>[1]): void {
    this.#collection.handle(shard, id, series);
  }

  onDied(shard: Shard, error: TokenplaneError): void {
    const { index } = shard;
    const place = this.#places[index]!;
    this.#collection.forget(shard);
    this.#columns.release(index);
    if (!this.#isServing || this.#isStopping) {
      if (this.#isStopping) this.#log.error("shard_died", { shard: index, error });
      return this.onChange();
    }
    if (performance.now() - place.startedMs > STEADY_MS) place.deaths = 0;
    const waitMs = Math.min(MAX_RESTART_MS, MIN_RESTART_MS * 2 ** Math.min(place.deaths++, 16));
    this.#log.error("shard_died", { shard: index, error, restart_in_ms: waitMs });
    this.onChange();
    place.timer = setTimeout(() => {
      this.#restarts[index]!++;
      // Its death is told to `onDied`, which tries again.
      this.#spawn(index).then(() => this.#log.info("shard_restarted", { shard: index }), () => {});
    }, waitMs);
  }

  async #spawn(index: number): Promise<void> {
    const place = this.#places[index]!;
    const { nodeListen, advertiseHost } = this.#address;
    // Where any port was good and has been taken meanwhile, every other try takes another; but workers were told that of
    // the first shard.
    const isAnyPort = nodeListen.port === 0 && index > 0 && place.deaths % 2 === 0;
    const port = nodeListen.port > 0 ? nodeListen.port + index : isAnyPort ? 0 : place.node?.port ?? 0;
    place.startedMs = performance.now();
    const { certificate, keys, memory: { columns, shared } } = this.#credentials;
    const shard = place.shard = new Shard({
      index,
      settings: this.#settings,
      http: this.#http,
      nodeListen: { host: nodeListen.host, port },
      advertiseHost,
      certificate,
      keys,
      keyMemory: { columns, shared, column: this.#columns.next(index) },
      process: this.#process,
      board: this.#board,
      isRestart: this.#isServing,
    }, this);
    await shard.accepting;
    const now = this.#credentials;
    // What has changed before it could hear of it.
    if (now.certificate !== null && now.certificate !== certificate) {
      shard.send({ kind: "certificate", certificate: now.certificate });
    }
    if (now.keys !== keys) shard.send({ kind: "keys", keys: now.keys });
    place.node = shard.node;
    this.#http = shard.http!;
  }

  #send(command: ShardCommand): void {
    for (const shard of this.#shards()) shard.send(command);
  }

  #stop(): void {
    this.#isStopping = true;
    this.#columns.close();
    for (const { timer } of this.#places) clearTimeout(timer);
  }

  /** Shards that live, by index. */
  #shards(): Shard[] {
    return this.#places.flatMap(({ shard }) => shard === null || shard.isDead ? [] : [shard]);
  }

  /** In the form in which workers dial them. */
  #nodes(): string[] {
    const { nodeListen, advertiseHost } = this.#address;
    const isAnywhere = advertiseHost === null && (nodeListen.host === "0.0.0.0" || nodeListen.host === "::");
    return this.#shards().flatMap(({ node }) => {
      if (node === null) return [];
      return isAnywhere
        ? [`:${node.port}`]
        : [formatHostPort({ host: advertiseHost ?? node.host, port: node.port })];
    });
  }
}

/** Models that all of some shards have, sorted by name. */
export function commonModels(offers: readonly (readonly ModelCard[])[]): ModelCard[] {
  const [first = [], ...others] = offers;
  const names = others.map((models) => new Set(models.map(({ id }) => id)));
  return first.filter(({ id }) => names.every((known) => known.has(id)));
}

/** Where the shards listen for workers. */
function nodeAddresses({ host, port }: HostPort, shards: number): HostPort[] {
  return Array.from({ length: shards }, (_, index) => ({ host, port: port === 0 ? 0 : port + index }));
}

/**
 * Shards share their HTTP port with whoever else shares it, so another program on it would not show; and what is taken
 * is to be said before anything serves. Throws `invalid_config`.
 */
function checkPortsAreFree(addresses: readonly HostPort[]): void {
  const listeners: Deno.Listener[] = [];
  try {
    for (const { host, port } of addresses) {
      if (port > 0) listeners.push(listenOnce({ host, port }));
    }
  } finally {
    for (const listener of listeners) listener.close();
  }
}

function listenOnce(address: HostPort): Deno.Listener {
  try {
    return Deno.listen({ hostname: address.host, port: address.port });
  } catch (caught) {
    const why = caught instanceof Error ? caught.message : String(caught);
    const message = `Cannot listen on "${formatHostPort(address)}": ${why}`;
    throw new TokenplaneError("invalid_config", message, { scope: "process", cause: caught });
  }
}
