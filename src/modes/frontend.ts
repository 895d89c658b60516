/** `tokenplane frontend`: HTTP in front, a message node behind. */
import type { HostPort } from "../config/host_port.ts";
import type { FrontendSettings, StartSettings } from "../config/schema/mod.ts";
import { addFrontendMetrics } from "../frontend/metrics.ts";
import { FrontendNode } from "../frontend/node.ts";
import { FrontendStats } from "../frontend/stats.ts";
import type { Logger } from "../observe/log.ts";
import { Collectors } from "../observe/metrics.ts";
import { MessageNode } from "./message_node.ts";
import { toFrontendOptions, toMuxOptions } from "./options.ts";
import type { Running } from "./running.ts";

/** A frontend that serves. */
export interface RunningFrontend extends Running {
  readonly http: HostPort;
  readonly node: HostPort;
  /** Workers that have joined. */
  readonly workers: () => number;
}

/** Where the node of a frontend listens and how it is reached. */
export interface NodeAddress {
  readonly nodeListen: HostPort;
  readonly advertiseHost: string | null;
}

/** Builds and starts a frontend. Throws `invalid_config` when an address cannot be had; nothing is left running then. */
export async function startFrontend(
  settings: FrontendSettings | StartSettings,
  address: NodeAddress,
  log: Logger,
): Promise<RunningFrontend> {
  const node = new MessageNode({
    listen: address.nodeListen,
    advertiseHost: address.advertiseHost,
    transport: settings.transport,
    mux: { ...toMuxOptions(settings), lanes: settings.lanes },
    log,
  });
  const stats = new FrontendStats();
  const collectors = new Collectors({ process: true });
  const frontend = new FrontendNode({
    messenger: node.messenger,
    plane: node.plane,
    options: toFrontendOptions(settings),
    log,
    stats,
    metrics: () => collectors.page(),
  });
  addFrontendMetrics(collectors, stats, frontend.table);
  const close = async () => {
    await frontend.close();
    await node.close();
  };
  try {
    await node.start();
    const { host, port } = settings.listen;
    const httpPort = await frontend.start({ hostname: host, port });
    return {
      http: { host, port: httpPort },
      node: node.address,
      workers: () => frontend.table.size,
      drain: (timeoutMs) => frontend.drain(timeoutMs),
      close,
    };
  } catch (caught) {
    await close();
    throw caught;
  }
}
