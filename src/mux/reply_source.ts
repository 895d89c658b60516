/** What this side owes a peer, as its batcher sees it. */
import type { OpenBatch } from "./open_batch.ts";

/** Where the batcher fetches what this side owes the peer about the peer's own slots. */
export interface ReplySource {
  /** Whether grants or rejections are due. */
  readonly owed: boolean;
  /** Appends them to the batch as far as they fit under `cap` bytes; the rest stays owed. */
  appendReplies(batch: OpenBatch, cap: number): void;
  /** The lane died, and with it perhaps grants that were on their way: what depended on them is over. */
  lost(reason: string): void;
}
