/** Repetitions of the same arm put together: medians, and what spoiled them. */

import { median, range } from "../support/statistics.ts";
import type { Repetition } from "./measure.ts";

/** Medians over the repetitions of one arm; errors are summed. */
export interface ArmSummary {
  readonly arm: string;
  readonly repetitions: number;
  readonly tokensPerSecond: number;
  readonly cpuUsPerToken: number;
  readonly cpuUsPerTokenMin: number;
  readonly cpuUsPerTokenMax: number;
  readonly gapP50Ms: number;
  readonly gapP99Ms: number;
  readonly gapMaxMs: number;
  readonly ttftP50Ms: number;
  readonly ttftP99Ms: number;
  readonly rssBytes: number;
  readonly peakBytes: number;
  readonly eventBytes: number;
  /** Share of tokens that came in one read with the one before. */
  readonly mergedShare: number;
  readonly relayCores: number;
  readonly producerCores: number;
  readonly clientCores: number;
  readonly foreignCores: number;
  readonly loopDelayP99Ms: number | null;
  readonly loopDelayMaxMs: number | null;
  readonly errors: number;
  readonly firstError: string;
}

/** Share of a core from which a client or producer may be what limits the figures. */
export const BUSY_CORE = 0.9;
/** Cores' worth of other processes from which the figures are not to be trusted. */
export const FOREIGN_CORES = 0.15;

/** Share of merged tokens from which the cost per token is flattered. */
const MERGED = 0.1;

/** Summarises the repetitions of one arm. */
export function summarise(arm: string, repetitions: readonly Repetition[]): ArmSummary {
  const mid = (pick: (repetition: Repetition) => number) => median(repetitions.map(pick));
  const delays = repetitions.flatMap(({ loopDelay }) => loopDelay === null ? [] : [loopDelay]);
  const cost = range(repetitions.map((repetition) => repetition.cpuUsPerToken));
  return {
    arm,
    repetitions: repetitions.length,
    tokensPerSecond: mid(({ load }) => load.tokens_per_s),
    cpuUsPerToken: mid((repetition) => repetition.cpuUsPerToken),
    cpuUsPerTokenMin: cost.min,
    cpuUsPerTokenMax: cost.max,
    gapP50Ms: mid(({ load }) => load.gap_ms.p50),
    gapP99Ms: mid(({ load }) => load.gap_ms.p99),
    gapMaxMs: mid(({ load }) => load.gap_ms.max),
    ttftP50Ms: mid(({ load }) => load.ttft_ms.p50),
    ttftP99Ms: mid(({ load }) => load.ttft_ms.p99),
    rssBytes: mid(({ memory }) => memory.rss),
    peakBytes: mid(({ memory }) => memory.peak),
    eventBytes: mid(({ load }) => load.body_bytes / load.events),
    mergedShare: mid(({ load }) => load.merged_tokens / load.tokens),
    relayCores: mid((repetition) => repetition.relayCores),
    producerCores: mid((repetition) => repetition.producerCores),
    clientCores: mid((repetition) => repetition.clientCores),
    foreignCores: mid((repetition) => repetition.foreignCores),
    loopDelayP99Ms: delays.length === 0 ? null : median(delays.map(({ p99 }) => p99)),
    loopDelayMaxMs: delays.length === 0 ? null : median(delays.map(({ max }) => max)),
    errors: repetitions.reduce((sum, { load }) => sum + load.errors_total, 0),
    firstError: repetitions.find(({ load }) => load.first_error !== "")?.load.first_error ?? "",
  };
}

/** What a reader must know before believing the figures; empty when nothing. */
export function warnings(summaries: readonly ArmSummary[], coresShared: boolean): string[] {
  const lines: string[] = [];
  for (const summary of summaries) {
    const { arm, clientCores, producerCores, relayCores, foreignCores, errors, firstError } = summary;
    const percent = (share: number) => `${Math.round(share * 100)} % of a core`;
    if (clientCores > BUSY_CORE) lines.push(`${arm}: the client was a bottleneck (${percent(clientCores)})`);
    if (producerCores > BUSY_CORE) {
      lines.push(`${arm}: the producer was a bottleneck (${percent(producerCores)})`);
    }
    if (coresShared && clientCores + producerCores > BUSY_CORE) {
      lines.push(
        `${arm}: client and producer filled the core they share (${percent(clientCores + producerCores)})`,
      );
    }
    if (relayCores > BUSY_CORE) {
      lines.push(`${arm}: the relay used ${percent(relayCores)}: its tokens/s is its limit`);
    }
    if (foreignCores > FOREIGN_CORES) {
      lines.push(`${arm}: other processes used ${percent(foreignCores)}: repeat on a quiet machine`);
    }
    if (summary.mergedShare > MERGED) {
      const share = Math.round(summary.mergedShare * 100);
      lines.push(
        `${arm}: ${share} % of tokens left together with the one before: cheaper than one by one, and later`,
      );
    }
    if (errors > 0) lines.push(`${arm}: ${errors} errors, the first: ${firstError}`);
  }
  const sizes = summaries.map(({ eventBytes }) => eventBytes).filter(Number.isFinite);
  const { min, max } = range(sizes);
  if (sizes.length > 1 && max > min * 1.1) {
    lines.push(`events differ in size between arms: ${min.toFixed(0)} to ${max.toFixed(0)} bytes`);
  }
  return lines;
}
