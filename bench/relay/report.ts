/** The readable form of a run: one table, the ratios with their bars, the warnings. */

import { formatNumber, formatTable } from "../support/table.ts";
import type { ArmSummary } from "./summary.ts";

const MIB = 1024 * 1024;

/** One row per arm. */
export function summaryTable(summaries: readonly ArmSummary[]): string {
  const header = [
    "arm",
    "tokens/s",
    "CPU µs/token",
    "(min–max)",
    "merged %",
    "gap p50 ms",
    "gap p99 ms",
    "TTFT p50 ms",
    "TTFT p99 ms",
    "RSS MiB",
    "peak MiB",
    "loop p99 ms",
    "loop max ms",
    "relay cores",
    "producer",
    "client",
    "others",
    "errors",
  ];
  return formatTable(header, summaries.map(summaryRow));
}

function summaryRow(summary: ArmSummary): string[] {
  return [
    summary.arm,
    formatNumber(summary.tokensPerSecond),
    formatNumber(summary.cpuUsPerToken, 2),
    `${formatNumber(summary.cpuUsPerTokenMin, 2)}–${formatNumber(summary.cpuUsPerTokenMax, 2)}`,
    formatNumber(summary.mergedShare * 100, 1),
    formatNumber(summary.gapP50Ms, 1),
    formatNumber(summary.gapP99Ms, 1),
    formatNumber(summary.ttftP50Ms, 1),
    formatNumber(summary.ttftP99Ms, 1),
    formatNumber(summary.rssBytes / MIB),
    formatNumber(summary.peakBytes / MIB),
    formatNumber(summary.loopDelayP99Ms, 1),
    formatNumber(summary.loopDelayMaxMs, 1),
    formatNumber(summary.relayCores, 2),
    formatNumber(summary.producerCores, 2),
    formatNumber(summary.clientCores, 2),
    formatNumber(summary.foreignCores, 2),
    String(summary.errors),
  ];
}

/** One comparison with its bar. */
export interface Ratio {
  readonly what: string;
  readonly value: number;
  readonly bar: number;
  readonly aim?: number;
  readonly holds: boolean;
}

/** Every tokenplane arm against nginx, HAProxy and the floor, as far as they ran. */
export function ratios(summaries: readonly ArmSummary[]): Ratio[] {
  const byName = new Map(summaries.map((summary) => [summary.arm, summary]));
  const list: Ratio[] = [];
  const add = (what: string, value: number, bar: number, aim?: number) =>
    list.push({ what, value, bar, holds: value <= bar, ...(aim === undefined ? {} : { aim }) });
  for (const ours of summaries.filter(({ arm }) => arm.startsWith("tokenplane"))) {
    // With TLS most of the cost is its own, the same for all: the bar is to be no dearer.
    const isTls = ours.arm.includes("-tls");
    const nginx = byName.get(isTls ? "nginx-tls" : "nginx");
    const floor = isTls ? undefined : byName.get("floor");
    if (nginx !== undefined) {
      add(
        `CPU per token, ${ours.arm} / ${nginx.arm}`,
        ours.cpuUsPerToken / nginx.cpuUsPerToken,
        isTls ? 1 : 0.7,
        isTls ? undefined : 0.55,
      );
    }
    if (floor !== undefined) {
      add(`CPU per token, ${ours.arm} / floor`, ours.cpuUsPerToken / floor.cpuUsPerToken, 1.7, 1.35);
    }
    if (nginx !== undefined) {
      add(`gap p99 in ms, ${ours.arm}, bar is ${nginx.arm}'s`, ours.gapP99Ms, nginx.gapP99Ms);
      add(`TTFT p50 in ms, ${ours.arm}, bar is ${nginx.arm}'s + 1`, ours.ttftP50Ms, nginx.ttftP50Ms + 1);
    }
    if (ours.loopDelayMaxMs !== null && Number.isFinite(ours.loopDelayMaxMs)) {
      add(`event loop delay max in ms, ${ours.arm}`, ours.loopDelayMaxMs, 50);
    }
  }
  return list;
}

/** The ratios as lines. */
export function ratioLines(list: readonly Ratio[]): string[] {
  return list.map(({ what, value, bar, aim, holds }) => {
    const bars = `bar ${formatNumber(bar, 2)}${aim === undefined ? "" : `, aim ${formatNumber(aim, 2)}`}`;
    return `${holds ? "ok  " : "MISS"} ${what}: ${formatNumber(value, 2)} (${bars})`;
  });
}
