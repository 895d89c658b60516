/** A frontend with as many shards as it was told to have. */
import type { FrontendSettings, StartSettings } from "../config/schema/mod.ts";
import { canSharePort } from "../frontend/share_port.ts";
import type { Logger } from "../observe/log.ts";
import { Credentials } from "./credentials.ts";
import { type NodeAddress, type RunningFrontend, startFrontend } from "./frontend.ts";
import { Supervisor } from "./shards/supervisor.ts";

/**
 * One shard serves right here; several have an isolate each, and this one only supervises. Throws `invalid_config` when
 * an address cannot be had.
 */
export async function serveFrontend(
  settings: FrontendSettings | StartSettings,
  address: NodeAddress,
  log: Logger,
): Promise<RunningFrontend> {
  const credentials = await Credentials.load(settings, log);
  try {
    if (settings.shards === 1) return await serveOne(settings, address, log, credentials);
    if (await canSharePort()) return await Supervisor.start(settings, address, log, credentials);
    // The default asks for several, so that it must not keep an older runtime from serving.
    log.warn("shards_unavailable", {
      asked: settings.shards,
      served: 1,
      reason: "node:http cannot share a port here",
    });
    return await serveOne(settings, address, log, credentials);
  } catch (caught) {
    credentials.close();
    throw caught;
  }
}

async function serveOne(
  settings: FrontendSettings | StartSettings,
  address: NodeAddress,
  log: Logger,
  credentials: Credentials,
): Promise<RunningFrontend> {
  const { certificate, keys: set, memory } = credentials;
  const frontend = await startFrontend(settings, address, log, {
    certificate,
    keys: { set, memory, column: 0 },
    onMade: (made) => credentials.tell(made),
    addMetrics: (collectors) => credentials.addMetrics(collectors),
  });
  return {
    ...frontend,
    close: async () => {
      credentials.close();
      await frontend.close();
    },
  };
}
