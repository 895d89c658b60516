/** Settings and counts of the UCX transport. */
import { type Clock, systemClock } from "../../src/clock.ts";
import { TokenplaneError } from "../../src/errors.ts";
import type { BugReport } from "../admission.ts";
import { MAX_FRAME_BYTES, type TransportStats } from "../contract.ts";
import { newTransportStats } from "../stats.ts";
import { UCP_LIBRARY } from "./library.ts";

/** What {@linkcode UcxTransport} takes; everything has a default. */
export interface UcxOptions {
  /** Name or path of the library. Default `libucp.so.0`, as the loader finds it. */
  library?: string;
  /** Largest header and payload of a frame, bytes, to 16 MiB. Default 1 MiB. */
  eagerMax?: number;
  /** Sends per peer that UCX has not completed. Default 256 frames, 1 MiB; one frame of any size always goes. */
  outstanding?: { maxFrames: number; maxBytes: number };
  /** Frames per peer that wait for admission; one over that fails with `overloaded`. Default 16384. */
  maxWaiting?: number;
  /** How long the loop looks again and again after activity before it parks, ms. Default 0.05. */
  spinMs?: number;
  /** Longest parking, ms. Default 100. */
  backstopMs?: number;
  /** Longest time for a new endpoint to connect, ms. Default 5000. */
  dialTimeoutMs?: number;
  /** Silence after which a peer that does not answer a probe counts as lost, ms. Default 15000. */
  peerTimeoutMs?: number;
  /** Reply endpoints told apart; frames of more senders share one connection. Default 65536. */
  maxInbound?: number;
  clock?: Clock;
  /** Told of exceptions out of callbacks. Default: the runtime's `reportError`. */
  onBug?: BugReport;
}

/** {@linkcode UcxOptions} with nothing missing. */
export type UcxSettings = Required<UcxOptions>;

/** Fills in defaults. Throws `invalid_config` for a value out of range. */
export function toUcxSettings(options: UcxOptions): UcxSettings {
  const settings: UcxSettings = {
    library: options.library ?? UCP_LIBRARY,
    eagerMax: options.eagerMax ?? 1_048_576,
    outstanding: options.outstanding ?? { maxFrames: 256, maxBytes: 1_048_576 },
    maxWaiting: options.maxWaiting ?? 16_384,
    spinMs: options.spinMs ?? 0.05,
    backstopMs: options.backstopMs ?? 100,
    dialTimeoutMs: options.dialTimeoutMs ?? 5_000,
    peerTimeoutMs: options.peerTimeoutMs ?? 15_000,
    maxInbound: options.maxInbound ?? 65_536,
    clock: options.clock ?? systemClock,
    onBug: options.onBug ?? reportError,
  };
  checkRange("eagerMax", settings.eagerMax, 1_024, MAX_FRAME_BYTES);
  checkRange("outstanding.maxFrames", settings.outstanding.maxFrames, 1, 65_536);
  checkRange("outstanding.maxBytes", settings.outstanding.maxBytes, 1, 1_073_741_824);
  checkRange("maxWaiting", settings.maxWaiting, 1, 1_048_576);
  checkRange("spinMs", settings.spinMs, 0, 1_000);
  checkRange("backstopMs", settings.backstopMs, 1, 10_000);
  checkRange("dialTimeoutMs", settings.dialTimeoutMs, 100, 600_000);
  checkRange("peerTimeoutMs", settings.peerTimeoutMs, 100, 600_000);
  checkRange("maxInbound", settings.maxInbound, 1, 1_048_576);
  return settings;
}

function checkRange(name: string, value: number, low: number, high: number): void {
  if (value >= low && value <= high) return;
  throw new TokenplaneError(
    "invalid_config",
    `Cannot set "${name}" to ${value}: allowed are ${low} to ${high}`,
  );
}

/** Plain numbers, read at scrape. */
export interface UcxStats extends TransportStats {
  lanesLost: number;
  endpointsCreated: number;
  /** Answers to a peer (pong, refusal) that were dropped because it does not take them. */
  repliesDropped: number;
  /** Workers that could not be destroyed because UCX did not let go of them in time. */
  leakedWorkers: number;
}

/** Fresh counts. */
export function newUcxStats(): UcxStats {
  return { ...newTransportStats(), lanesLost: 0, endpointsCreated: 0, repliesDropped: 0, leakedWorkers: 0 };
}
