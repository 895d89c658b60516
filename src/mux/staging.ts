/** The two answers a batcher deals in: what staging a record came to, and what this side owes the peer. */
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

/** What staging a record came to. */
export const Staged = Object.freeze({
  /** In the batch. */
  yes: 0,
  /** The lane is parked and the open batch is full: the stream keeps the record. */
  noRoom: 1,
  /** Sent alone; the stream is fenced until that has been admitted. */
  fenced: 2,
});
/** One of {@linkcode Staged}. */
export type Staged = (typeof Staged)[keyof typeof Staged];
