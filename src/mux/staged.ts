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
