/** The counts that every transport keeps, zeroed. */
import type { TransportStats } from "./contract.ts";

const MESSAGE_TYPES = 5;

/** Fresh counts. */
export function newTransportStats(): TransportStats {
  return {
    framesIn: new Array<number>(MESSAGE_TYPES).fill(0),
    framesOut: new Array<number>(MESSAGE_TYPES).fill(0),
    bytesIn: new Array<number>(MESSAGE_TYPES).fill(0),
    bytesOut: new Array<number>(MESSAGE_TYPES).fill(0),
    rejections: {},
    backpressure: 0,
    peers: 0,
    connections: 0,
  };
}

/** Counts one rejection. `reason` is one of a closed set. */
export function countRejection(stats: TransportStats, reason: string): void {
  stats.rejections[reason] = (stats.rejections[reason] ?? 0) + 1;
}

/** Bytes of all parts together. */
export function totalBytes(parts: readonly Uint8Array[]): number {
  let total = 0;
  for (let i = 0; i < parts.length; i++) total += parts[i]!.length;
  return total;
}
