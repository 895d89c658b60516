/** The producer behind the proxies: the C token source. */

import { acceptsConnections, ManagedProcess, waitUntilReady } from "../../support/managed_process.ts";
import { freePort } from "../../support/tools.ts";
import type { ArmContext } from "./arm.ts";

/** Starts the source on cores of the caller's choice. */
export async function startSource(
  context: ArmContext,
  cores: string | null,
): Promise<{ process: ManagedProcess; port: number }> {
  if (context.native === null) throw new Error("Cannot start the source: it was not compiled");
  const port = freePort();
  const flags = {
    port,
    tokens: context.tokens,
    "step-ms": context.stepMs,
    "ttft-ms": context.ttftMs,
    "event-bytes": context.eventBytes,
  };
  const argv = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const process = await ManagedProcess.spawn("source", [context.native.source, ...argv], { cores });
  try {
    await waitUntilReady([process], () => acceptsConnections(port));
  } catch (error) {
    await process.stop();
    throw error;
  }
  return { process, port };
}
