/** A frontend with as many shards as it was told to have. */
import type { FrontendSettings, StartSettings } from "../config/schema/mod.ts";
import type { Logger } from "../observe/log.ts";
import { type NodeAddress, type RunningFrontend, startFrontend } from "./frontend.ts";
import { Supervisor } from "./shards/supervisor.ts";

/**
 * One shard serves right here; several have an isolate each, and this one only supervises. Throws `invalid_config` when
 * an address cannot be had.
 */
export function serveFrontend(
  settings: FrontendSettings | StartSettings,
  address: NodeAddress,
  log: Logger,
): Promise<RunningFrontend> {
  return settings.shards === 1
    ? startFrontend(settings, address, log)
    : Supervisor.start(settings, address, log);
}
