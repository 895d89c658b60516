/** What a relay is given by its frontend, and whom it reports to. */
import type { Outcome } from "../outcome.ts";
import type { SummaryNote } from "../plane/notes.ts";
import type { FlushList } from "./flush_list.ts";
import type { FrontendStats } from "./stats.ts";

/** What all relays of a frontend share. */
export interface RelayContext {
  readonly stats: FrontendStats;
  readonly flushList: FlushList;
  readonly maxGatherBytes: number;
}

/**
 * Who a relay reports to. `onFirstRecord` comes at most once. Each try then ends in at most one of the other two, and
 * `onFailedEarly` may be followed by another try.
 */
export interface RelayHost {
  /** The first data item of this request is here. */
  onFirstRecord(): void;
  /** A whole response was sent, or a stream has been brought to its end; `outcome` says how it went. */
  onComplete(outcome: Outcome, summary: SummaryNote | null): void;
  /** The stream is over and nothing has been sent: a real status can still be given. */
  onFailedEarly(outcome: Outcome, detail: string): void;
}
