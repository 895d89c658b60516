/** One frontend: HTTP in, requests to workers, streams out. Built over a messenger and a plane that the caller owns. */
import { type Clock, systemClock } from "../clock.ts";
import { TokenplaneError } from "../errors.ts";
import type { MessengerPort } from "../messenger/types.ts";
import { type Logger, silentLogger } from "../observe/log.ts";
import type { MetricsPage } from "../observe/metrics.ts";
import type { ResponsePlane } from "../plane/types.ts";
import type { LoadBoard } from "../routing/load_board.ts";
import type { ModelCard } from "../routing/worker.ts";
import { WorkerTable } from "../routing/worker_table.ts";
import { createApp } from "./app.ts";
import type { AppContext } from "./app_context.ts";
import { Dispatcher } from "./dispatch.ts";
import { chooseEgress } from "./egress/choose.ts";
import { FlushList } from "./flush_list.ts";
import { GenerateRoute } from "./generate_route.ts";
import { entryFor } from "./keys/key_entry.ts";
import { KeyGuard } from "./keys/key_guard.ts";
import { KeyLimiter } from "./keys/key_limiter.ts";
import { KeyMemory } from "./keys/key_memory.ts";
import { KeyRing, type KeySet } from "./keys/key_ring.ts";
import { type JoinContext, registerJoinHandlers, suspect } from "./join_handlers.ts";
import { checkFrontendOptions, type FrontendOptions } from "./options.ts";
import { Routing } from "./routing.ts";
import { createHttpServer, listen, type ListenOptions } from "./server.ts";
import { FrontendStats } from "./stats.ts";
import type { CertificatePair } from "./tls/certificate.ts";
import { type HttpServer, replaceCertificate } from "./tls/tls_server.ts";

/** Keys whose limits hold for several frontends together. */
export interface SharedKeys {
  readonly set: KeySet;
  readonly memory: KeyMemory;
  /** This frontend's own. */
  readonly column: number;
}

/** What a {@linkcode FrontendNode} is built from. */
export interface FrontendParts {
  readonly messenger: MessengerPort;
  readonly plane: ResponsePlane;
  readonly options?: Partial<FrontendOptions>;
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly stats?: FrontendStats;
  /** Serves behind TLS by this; default: without. */
  readonly certificate?: CertificatePair | null;
  /** Keys that are let in, with their counts. Default: `apiKeys` of the options, with counts of their own. */
  readonly keys?: SharedKeys;
  /** Answers `/metrics`. */
  readonly metrics?: () => MetricsPage | Promise<MetricsPage>;
  /** Models of the whole process, when other shards have some too. Default: those of this node's workers. */
  readonly models?: () => readonly ModelCard[];
  /** Where the load of all shards is counted. Default: one of its own. */
  readonly board?: LoadBoard;
  /** Node addresses (`host:port`) of all shards, for workers that join. */
  readonly shards?: () => readonly string[];
  /** The workers of this node, or their models, have changed; may be called when they have not. */
  readonly onWorkers?: () => void;
}

/** See above. `start`, then `beginDrain`, `drain`, `close` in this order. */
export class FrontendNode {
  readonly stats: FrontendStats;
  readonly table: WorkerTable;
  readonly routing: Routing;
  readonly options: FrontendOptions;
  readonly #parts: FrontendParts;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #flushList: FlushList;
  readonly keys: KeyGuard;
  readonly limiter: KeyLimiter;
  #dispatcher: Dispatcher | null = null;
  #server: HttpServer | null = null;
  #certificate: CertificatePair | null;
  #isDraining = false;

  /** Registers the join handlers. Throws `invalid_config`. */
  constructor(parts: FrontendParts) {
    this.#parts = parts;
    this.options = checkFrontendOptions(parts.options ?? {});
    this.stats = parts.stats ?? new FrontendStats();
    this.#clock = parts.clock ?? systemClock;
    this.#log = parts.log ?? silentLogger;
    this.#flushList = new FlushList(this.#clock);
    this.#certificate = parts.certificate ?? null;
    const { set, memory, column } = parts.keys ?? ownKeys(this.options);
    this.keys = new KeyGuard(set);
    const { retryAfterSeconds } = this.options;
    this.limiter = new KeyLimiter(memory, column, this.#clock, performance.timeOrigin, retryAfterSeconds);
    const { joinIntervalMs, lostGraceMs, maxWorkers } = this.options;
    this.table = new WorkerTable({
      clock: this.#clock,
      log: this.#log,
      joinIntervalMs,
      lostGraceMs,
      maxWorkers,
      onGone: (worker) => {
        this.routing.onGone(worker);
        parts.messenger.unregisterPeer(worker.instanceId);
      },
      ...(parts.board === undefined ? {} : { board: parts.board }),
      ...(parts.onWorkers === undefined ? {} : { onChange: parts.onWorkers }),
    });
    this.routing = new Routing({
      options: this.options,
      table: this.table,
      messenger: parts.messenger,
      clock: this.#clock,
      log: this.#log,
    });
    registerJoinHandlers(this.#joinContext());
    parts.plane.onDelivered(() => this.#flushList.flush());
  }

  /** Requests whose response has not left completely. */
  get openRequests(): number {
    return this.#dispatcher?.open ?? 0;
  }

  /** Starts to serve; resolves to the real port. Throws `invalid_config` when the address cannot be had. */
  async start(where: ListenOptions): Promise<number> {
    if (this.#server !== null) throw new TokenplaneError("internal", "Cannot start a frontend twice");
    this.#flushList.use(await chooseEgress(this.options.egress, this.#certificate));
    const { messenger, plane, metrics, models } = this.#parts;
    const { options, stats, table } = this;
    const dispatcher = new Dispatcher({
      clock: this.#clock,
      log: this.#log,
      messenger,
      plane,
      routing: this.routing,
      options,
      relay: { stats, flushList: this.#flushList, maxGatherBytes: options.maxGatherBytes },
      onWorkerLost: (worker, reason) => suspect(this.#joinContext(), worker, reason),
      onWorkerDraining: (worker) => table.markDraining(worker),
    });
    const context: AppContext = {
      options,
      log: this.#log,
      accept: (...request) => dispatcher.accept(...request),
      models: models ?? (() => table.models()),
      isServing: () => models === undefined ? table.isServing : models().length > 0,
      isDraining: () => this.#isDraining,
      metrics: metrics ?? (() => ({ contentType: "text/plain; version=0.0.4", body: "" })),
      onUnauthorized: (endpoint) => {
        stats.countRefused("unauthorized");
        if (endpoint !== null) stats.responses.count(401);
      },
      onRateLimited: (id, key_name) => {
        stats.countRefused("rate_limited");
        stats.responses.count(429);
        this.#log.debug("request_refused", { id, key_name, reason: "rate_limited" });
      },
    };
    const generating = new GenerateRoute(context, this.keys, this.limiter);
    const app = createApp(context, this.keys, generating);
    this.#dispatcher = dispatcher;
    this.#server = createHttpServer(
      app.fetch,
      options,
      (request, response) => generating.answerPlain(request, response),
      this.#certificate,
    );
    const port = await listen(this.#server, where, options.backlog);
    this.#log.info("frontend_listening", { hostname: where.hostname, port });
    return port;
  }

  /** Proves itself by another pair from the next handshake on. Not for one that was started without. */
  useCertificate(pair: CertificatePair): void {
    this.#certificate = pair;
    if (this.#server !== null) replaceCertificate(this.#server, pair);
  }

  /** Health says 503 and new requests are refused; what runs goes on. Connections are still taken, to be told so. */
  beginDrain(): void {
    this.#isDraining = true;
    // Idle connections stay: on Deno 2.6 `closeIdleConnections` shuts the whole server down, and health could not say 503.
    this.#dispatcher?.beginDrain();
  }

  /** Drains; what still runs after `timeoutMs` is ended with an error. */
  async drain(timeoutMs: number): Promise<void> {
    this.beginDrain();
    await this.#dispatcher?.drain(timeoutMs);
  }

  /** Ends everything and stops to listen. Idempotent. The messenger and the plane stay open. */
  async close(): Promise<void> {
    this.beginDrain();
    this.table.close();
    const server = this.#server;
    this.#server = null;
    if (server === null) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    await this.#dispatcher?.close();
    server.closeAllConnections();
    await closed;
  }

  #joinContext(): JoinContext {
    const { joinIntervalMs, lostGraceMs } = this.options;
    return {
      messenger: this.#parts.messenger,
      table: this.table,
      clock: this.#clock,
      log: this.#log,
      joinIntervalMs,
      lostGraceMs,
      shards: this.#parts.shards ?? (() => []),
      onConnected: (worker) => this.routing.onConnected(worker),
    };
  }
}

/** Keys of a frontend that shares them with nobody. */
function ownKeys(options: FrontendOptions): SharedKeys {
  const limits = { rpm: options.keyRequestsPerMinute, concurrent: options.keyConcurrentRequests };
  const memory = new KeyMemory(1);
  const set = new KeyRing(memory).replace(options.apiKeys.map((key) => entryFor(key, limits)), true);
  return { set, memory, column: 0 };
}
