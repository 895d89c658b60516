/** A frontend in this isolate: HTTP in front, a message node behind. */
import type { HostPort } from "../config/host_port.ts";
import type { FrontendSettings, StartSettings } from "../config/schema/mod.ts";
import type { MetricsPage } from "../observe/metrics.ts";
import { addKeyMetrics } from "../frontend/keys/key_metrics.ts";
import { addFrontendMetrics } from "../frontend/metrics.ts";
import { addRoutingMetrics } from "../frontend/routing_metrics.ts";
import { FrontendNode, type SharedKeys } from "../frontend/node.ts";
import { FrontendStats } from "../frontend/stats.ts";
import type { CertificatePair } from "../frontend/tls/certificate.ts";
import type { Logger } from "../observe/log.ts";
import { addLoopDelayMetrics, LoopDelay } from "../observe/loop_delay.ts";
import { Collectors, type Series } from "../observe/metrics.ts";
import type { LoadBoard } from "../routing/load_board.ts";
import type { ModelCard } from "../routing/worker.ts";
import type { CredentialHost } from "./credentials.ts";
import { affordableConnections, descriptorLimit } from "./descriptor_limit.ts";
import { MessageNode } from "./message_node.ts";
import { toFrontendOptions, toMuxOptions } from "./options.ts";
import type { Running } from "./running.ts";

/** A frontend that serves. */
export interface RunningFrontend extends Running {
  readonly http: HostPort;
  readonly node: HostPort;
  /** How many there are; a worker joins each. */
  readonly shards: number;
  /** Workers that have joined. */
  readonly workers: () => number;
}

/** One in this isolate. */
export interface LocalFrontend extends RunningFrontend {
  /** Its metrics, without those of the process. */
  readonly series: () => Promise<Series[]>;
}

/** What a frontend that is one shard of several asks and tells the others. */
export interface ShardHooks {
  readonly index: number;
  /** Its column of the load that all shards count. */
  readonly board: LoadBoard;
  readonly models: () => readonly ModelCard[];
  readonly shards: () => readonly string[];
  /** @param own the page of this shard alone */
  readonly metrics: (own: () => Promise<MetricsPage>) => Promise<MetricsPage>;
  /** Its workers may have changed. */
  readonly onWorkers: (models: readonly ModelCard[], workers: number) => void;
  /** Workers can join at `node`; clients are taken when this resolves. */
  readonly onListening: (node: HostPort, models: () => readonly ModelCard[]) => Promise<void>;
}

/** By what it proves itself and whom it lets in. */
export interface FrontendAccess {
  readonly certificate: CertificatePair | null;
  readonly keys: SharedKeys;
  /** Given whom to tell of changes, before it serves. */
  readonly onMade: (host: CredentialHost) => void;
  /** Adds series to its own. */
  readonly addMetrics?: (collectors: Collectors) => void;
}

/** Where the node of a frontend listens and how it is reached. */
export interface NodeAddress {
  readonly nodeListen: HostPort;
  readonly advertiseHost: string | null;
}

/**
 * Builds and starts a frontend. Throws `invalid_config` when an address cannot be had; nothing is left running then.
 *
 * @param shard given when it shares the process, and its port, with others
 */
export async function startFrontend(
  settings: FrontendSettings | StartSettings,
  address: NodeAddress,
  log: Logger,
  access: FrontendAccess,
  shard: ShardHooks | null = null,
): Promise<LocalFrontend> {
  const node = new MessageNode({
    listen: address.nodeListen,
    advertiseHost: address.advertiseHost,
    transport: settings.transport,
    mux: { ...toMuxOptions(settings), lanes: settings.lanes },
    log,
  });
  const stats = new FrontendStats();
  const collectors = new Collectors({ process: shard === null });
  const ownPage = () => collectors.page();
  const shards = "shards" in settings ? settings.shards : 1;
  const maxConnections = affordableConnections(settings.maxConnections, shards, descriptorLimit());
  const frontend: FrontendNode = new FrontendNode({
    messenger: node.messenger,
    plane: node.plane,
    options: { ...toFrontendOptions(settings), maxConnections },
    log,
    stats,
    certificate: access.certificate,
    keys: access.keys,
    metrics: shard === null ? ownPage : () => shard.metrics(ownPage),
    ...(shard === null ? {} : {
      models: shard.models,
      board: shard.board,
      shards: shard.shards,
      onWorkers: () => shard.onWorkers(frontend.table.models(), frontend.table.size),
    }),
  });
  const loopDelay = new LoopDelay();
  access.onMade({
    onCertificate: (pair) => frontend.useCertificate(pair),
    onKeys: (keys) => frontend.keys.use(keys),
  });
  addFrontendMetrics(collectors, stats, frontend.table);
  addRoutingMetrics(collectors, frontend.routing);
  if (!frontend.keys.isOpen) addKeyMetrics(collectors, frontend.keys, frontend.limiter);
  access.addMetrics?.(collectors);
  node.addMetrics(collectors);
  addLoopDelayMetrics(collectors, loopDelay, { shard: String(shard?.index ?? 0) });
  const close = async () => {
    loopDelay.stop();
    await frontend.close();
    await node.close();
  };
  try {
    await node.start();
    loopDelay.start();
    await shard?.onListening(node.address, () => frontend.table.models());
    const { host, port } = settings.listen;
    const httpPort = await frontend.start({ hostname: host, port, reusePort: shard !== null });
    // Not before it serves: a start that fails says one line, which is why.
    if (maxConnections < settings.maxConnections) {
      log.info("connections_limited", {
        connections: maxConnections,
        descriptors: descriptorLimit(),
        shards,
      });
    }
    return {
      http: { host, port: httpPort },
      node: node.address,
      shards: 1,
      workers: () => frontend.table.size,
      series: () => collectors.series(),
      drain: (timeoutMs) => frontend.drain(timeoutMs),
      close,
    };
  } catch (caught) {
    await close();
    throw caught;
  }
}
