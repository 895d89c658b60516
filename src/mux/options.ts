/** What one mux is told at construction. Units are in the names; defaults are the wire document's. */
import { TokenplaneError } from "../errors.ts";

/** When staged records are written. Records that bear liveness go at once under every policy. */
export type FlushPolicy =
  | { readonly kind: "auto"; readonly onAdmission: boolean; readonly maxLingerMs: number | null }
  | { readonly kind: "manual" };

/** Settings of one mux. */
export interface MuxOptions {
  /** Lanes to keep to a peer, and to offer in tickets. */
  readonly lanes: number;
  /** Data records a sender may have under way per stream. */
  readonly initialCredit: number;
  /** Bytes that may wait per stream, on either side. */
  readonly slotByteBudget: number;
  /** Bytes that may wait per peer before its slow streams get no more credit. */
  readonly peerByteBudget: number;
  /** How often an idle sender beats, and how often a receiver looks. */
  readonly heartbeatIntervalMs: number;
  /** Silent looks in a row after which a stream is dead. */
  readonly missedBeats: number;
  /** How long a registered stream waits for its sender before it is given up. */
  readonly acceptTimeoutMs: number;
  /** How long a reply that only carries credit may wait for company. */
  readonly replyLingerMs: number;
  /** Least time between two replies to one peer that only carry credit. */
  readonly visitFloorMs: number;
  /** Backstop for credit that nothing else returned. */
  readonly sweepMs: number;
  /** How long the streams of a lost connection may still be taken over by a newer epoch. */
  readonly peerGraceMs: number;
  /** Largest batch, header included. */
  readonly maxBatchBytes: number;
  /** Slots one peer may have open here. */
  readonly maxSlotsPerPeer: number;
  readonly flush: FlushPolicy;
  /** Senders may send before their OpenSlot has been admitted; the slot is fenced until it is. */
  readonly asyncOpenAck: boolean;
  /** `attach`: a worker asks for its stream first (`_anchor_attach`); `ticket`: it sends at once. */
  readonly streamSetup: "ticket" | "attach";
}

/** Defaults; every one of them is a setting. */
export const DEFAULT_MUX_OPTIONS: MuxOptions = Object.freeze({
  lanes: 4,
  initialCredit: 32,
  slotByteBudget: 1_048_576,
  peerByteBudget: 8_388_608,
  heartbeatIntervalMs: 5_000,
  missedBeats: 3,
  acceptTimeoutMs: 60_000,
  replyLingerMs: 1,
  visitFloorMs: 2,
  sweepMs: 200,
  peerGraceMs: 250,
  maxBatchBytes: 61_440,
  maxSlotsPerPeer: 65_536,
  flush: Object.freeze({ kind: "auto", onAdmission: true, maxLingerMs: null } as const),
  asyncOpenAck: false,
  streamSetup: "ticket",
});

/** Fills in defaults and refuses nonsense (`invalid_config`), naming option, value and range. */
export function resolveMuxOptions(given: Partial<MuxOptions> = {}): MuxOptions {
  const options = { ...DEFAULT_MUX_OPTIONS, ...given };
  requireRange(options, "lanes", 1, 16);
  requireRange(options, "initialCredit", 1, 65_536);
  requireRange(options, "slotByteBudget", 1_024, 1_073_741_824);
  requireRange(options, "peerByteBudget", 1_024, 17_179_869_184);
  requireRange(options, "heartbeatIntervalMs", 10, 600_000);
  requireRange(options, "missedBeats", 1, 100);
  requireRange(options, "acceptTimeoutMs", 10, 3_600_000);
  requireRange(options, "replyLingerMs", 0, 1_000);
  requireRange(options, "visitFloorMs", 0, 1_000);
  requireRange(options, "sweepMs", 10, 60_000);
  requireRange(options, "peerGraceMs", 0, 60_000);
  requireRange(options, "maxBatchBytes", 29, 65_536);
  requireRange(options, "maxSlotsPerPeer", 1, 16_777_216);
  if (options.slotByteBudget > options.peerByteBudget) {
    throw new TokenplaneError(
      "invalid_config",
      `Cannot use slotByteBudget ${options.slotByteBudget} with peerByteBudget ${options.peerByteBudget}: ` +
        "a slot's budget must not exceed its peer's",
    );
  }
  return options;
}

function requireRange(options: MuxOptions, name: keyof MuxOptions, min: number, max: number): void {
  const value = options[name];
  if (typeof value === "number" && value >= min && value <= max) return;
  throw new TokenplaneError("invalid_config", `Cannot use ${name} ${value}: allowed is ${min} to ${max}`);
}
