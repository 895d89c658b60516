/** How a response ended, and what it cost: the words that both of its ends share. */

/**
 * Every outcome, in the order in which they are shown. `ok`: the client has a whole answer, be it one with a status below
 * 500 that says what is wrong with its request.
 */
export const OUTCOMES = Object.freeze(
  ["ok", "cancelled", "upstream_error", "truncated", "dropped", "timeout", "internal_error"] as const,
);
/** The outcome of a stream; exactly one is recorded. */
export type Outcome = (typeof OUTCOMES)[number];
/** How the producer says it went; `cancelled` and `dropped` are not the producer's to say. */
export type ProducerOutcome = Exclude<Outcome, "cancelled" | "dropped">;

/** Token counts as the engine reported them. */
export interface TokenUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly totalTokens: number;
}

/** A count per outcome, zeroed. */
export function newOutcomeCounts(): Record<Outcome, number> {
  return { ok: 0, cancelled: 0, upstream_error: 0, truncated: 0, dropped: 0, timeout: 0, internal_error: 0 };
}
