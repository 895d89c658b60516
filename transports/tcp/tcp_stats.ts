/** What the TCP transport counts beyond the common counts. */
import type { TransportStats } from "../contract.ts";
import { newTransportStats } from "../stats.ts";

/** Plain numbers, read at scrape. */
export interface TcpStats extends TransportStats {
  writes: number;
  framesWritten: number;
  /** The same, by MessageType. */
  framesWrittenByType: number[];
  bytesWritten: number;
  /** Time that chunks spent in the queue before their write began, summed, ms. */
  queueWaitMs: number;
  /** Time spent in writes, summed, ms. */
  writeMs: number;
  dials: number;
  dialFailures: number;
  lanesLost: number;
  /** Accepts that failed, e.g. for want of file descriptors. */
  acceptFailures: number;
  /** For a histogram: called once per write with the chunk's wait and the write's duration, ms. */
  onWrite: ((queueWaitMs: number, writeMs: number) => void) | null;
}

/** Fresh counts. */
export function newTcpStats(): TcpStats {
  return {
    ...newTransportStats(),
    writes: 0,
    framesWritten: 0,
    framesWrittenByType: [0, 0, 0, 0, 0],
    bytesWritten: 0,
    queueWaitMs: 0,
    writeMs: 0,
    dials: 0,
    dialFailures: 0,
    lanesLost: 0,
    acceptFailures: 0,
    onWrite: null,
  };
}
