/** Counts of one mux: plain fields, written on the path, read at scrape. Names follow the metrics of the wire document. */

import { OperationStats } from "../observe/histogram.ts";

/** Buckets of `records_per_batch`: 1, 2, 4 … 2048, and beyond. */
export const RECORDS_PER_BATCH_BUCKETS = 13;
const RECORD_TYPES = 5;

/** Why a record was dropped. */
export type DropReason =
  | "stale_epoch"
  | "generation"
  | "unknown_slot"
  | "closed_slot"
  | "slot_collision"
  | "withheld_overflow"
  | "stale_singleton"
  | "duplicate";

/** What wakes a batcher: the end of the wake that staged, its linger, owed credit, an admission, a flush by hand. */
export type WakeSource = "staged" | "linger" | "reply" | "admitted" | "kick";

/** What happens to anchors, seen from their own node; a sender that attaches counts its round trips as well. */
export type AnchorOperation = "attach" | "detach" | "finalize" | "cancel";

/** One mux's counts. */
export class MuxStats {
  batchesSent = 0;
  batchesReceived = 0;
  recordsSent = 0;
  recordsReceived = 0;
  /** Records that the headers of received batches named. */
  recordsDeclared = 0;
  /** Records in batches handed to the messenger, by record type. */
  readonly recordsSentByType = new Float64Array(RECORD_TYPES);
  malformedBatches = 0;
  /** Batches by number of records: index i counts batches of up to 2^i records, the last one the rest. */
  readonly recordsPerBatchSent = new Float64Array(RECORDS_PER_BATCH_BUCKETS);
  readonly recordsPerBatchReceived = new Float64Array(RECORDS_PER_BATCH_BUCKETS);
  generationMismatches = 0;
  readonly dropped: Record<DropReason, number> = {
    stale_epoch: 0,
    generation: 0,
    unknown_slot: 0,
    closed_slot: 0,
    slot_collision: 0,
    withheld_overflow: 0,
    stale_singleton: 0,
    duplicate: 0,
  };
  creditExhausted = 0;
  singletons = 0;
  controlRefused = 0;
  holdOverflows = 0;
  epochDeaths = 0;
  batchSeqGaps = 0;
  watchdogFirings = 0;
  /** Records that a producer was told to wait with. */
  producerWaits = 0;
  /** What had a batcher look at its batch. */
  readonly wakes: Record<WakeSource, number> = { staged: 0, linger: 0, reply: 0, admitted: 0, kick: 0 };
  readonly anchors: Record<AnchorOperation, OperationStats> = {
    attach: new OperationStats(),
    detach: new OperationStats(),
    finalize: new OperationStats(),
    cancel: new OperationStats(),
  };
  creditReplies = 0;
  /** Always 0: a buffer that credit guards was full. Anything else is a bug. */
  readerStalls = 0;
  // Gauges.
  liveAnchors = 0;
  liveIngressSlots = 0;
  liveEgressSlots = 0;
  heldRecords = 0;
  withheldRecords = 0;
  stagedRecords = 0;

  /** A batch of `records` records has been handed over. */
  sent(records: number): void {
    this.batchesSent++;
    this.recordsSent += records;
    this.recordsPerBatchSent[recordsBucket(records)]!++;
  }
}

/** Index into a records-per-batch array. */
export function recordsBucket(records: number): number {
  return records <= 1 ? 0 : Math.min(RECORDS_PER_BATCH_BUCKETS - 1, 32 - Math.clz32(records - 1));
}
