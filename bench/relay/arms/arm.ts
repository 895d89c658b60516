/** One thing that carries token streams, as the rig sees it. */

import type { ManagedProcess } from "../../support/managed_process.ts";
import type { NativeTools } from "../../support/native.ts";

/** Everything an arm needs to start. */
export interface ArmContext {
  readonly native: NativeTools | null;
  /** The command that runs tokenplane, without its mode. */
  readonly tokenplane: readonly string[];
  readonly tokens: number;
  readonly stepMs: number;
  readonly ttftMs: number;
  readonly eventBytes: number;
  readonly streams: number;
  readonly relayCores: string | null;
  readonly otherCores: string | null;
  /** A folder of this repetition's own, for configuration files. */
  readonly scratch: string;
  readonly openFiles?: number;
  /** Further flags of `tokenplane frontend` and `tokenplane worker`. */
  readonly frontendFlags?: readonly string[];
  readonly workerFlags?: readonly string[];
}

/** A started arm. */
export interface RunningArm {
  /** Where the client sends its requests. */
  readonly port: number;
  /** The processes whose cost is the relay's. */
  readonly relay: readonly ManagedProcess[];
  /** Where it serves `/metrics`, when it does. */
  readonly metricsPort?: number;
  /** Whether the client has to speak TLS. */
  readonly isTls?: boolean;
  /** The processes that only make tokens. */
  readonly producers: readonly ManagedProcess[];
}

/** How one arm is started. A failed start leaves no process behind. */
export interface Arm {
  readonly name: string;
  /** What is missing and how to install it; null when the arm can run. */
  unavailable(context: Pick<ArmContext, "native">): Promise<string | null>;
  start(context: ArmContext): Promise<RunningArm>;
}

/** Ends an arm's processes, the relay first. */
export async function stopArm(arm: RunningArm): Promise<void> {
  for (const process of [...arm.relay, ...arm.producers]) await process.stop();
}
