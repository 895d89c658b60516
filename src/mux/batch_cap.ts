/** How large a batch may be. */
import { BATCH_HEADER_BYTES, RECORD_HEADER_BYTES } from "./wire/batch.ts";

/** Smallest cap: a header and one empty record. */
export const MIN_BATCH_BYTES = BATCH_HEADER_BYTES + RECORD_HEADER_BYTES;
/** Larger frames are not joined into one write by the transport, so larger batches gain nothing. */
export const COALESCING_THRESHOLD_BYTES = 65_536;

/**
 * The cap of one batch in bytes, header included: the least of the configured cap, the transport's eager budget and
 * the coalescing threshold, but never under {@linkcode MIN_BATCH_BYTES}.
 */
export function effectiveBatchCap(configured: number, eagerBudget: number): number {
  return Math.max(MIN_BATCH_BYTES, Math.min(configured, eagerBudget, COALESCING_THRESHOLD_BYTES));
}
