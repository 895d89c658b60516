import { assertEquals } from "@std/assert";
import { parseLoopDelay } from "../../bench/relay/loop_delay.ts";
import type { Repetition } from "../../bench/relay/measure.ts";
import { ratios } from "../../bench/relay/report.ts";
import { summarise, warnings } from "../../bench/relay/summary.ts";
import type { LoadResult } from "../../bench/support/load_client.ts";

const QUANTILES = { p50: 20, p90: 21, p99: 22, max: 30, count: 1_000 };

function repetition(change: Partial<Repetition> = {}, load: Partial<LoadResult> = {}): Repetition {
  return {
    arm: "x",
    cpuUsPerToken: 8,
    relayCores: 0.2,
    producerCores: 0.2,
    clientCores: 0.2,
    foreignCores: 0,
    memory: { rss: 1, peak: 2 },
    loopDelay: null,
    load: {
      seconds: 1,
      requests: 10,
      all_requests: 10,
      stalled: 0,
      tokens: 1_000,
      merged_tokens: 0,
      events: 1_000,
      body_bytes: 170_000,
      tokens_per_s: 1_000,
      ttft_ms: QUANTILES,
      gap_ms: QUANTILES,
      client_cpu_us_per_token: 1,
      client_core_share: 0.2,
      errors: {},
      errors_total: 0,
      first_error: "",
      ...load,
    },
    ...change,
  };
}

Deno.test("summarise takes medians, adds errors and keeps the first", () => {
  const summary = summarise("x", [
    repetition({ cpuUsPerToken: 9 }),
    repetition({ cpuUsPerToken: 50 }, { errors_total: 2, first_error: "status" }),
    repetition({ cpuUsPerToken: 7 }, { errors_total: 1, first_error: "later" }),
  ]);
  const { cpuUsPerToken, cpuUsPerTokenMin, cpuUsPerTokenMax, errors, firstError } = summary;
  assertEquals([cpuUsPerToken, cpuUsPerTokenMin, cpuUsPerTokenMax, errors, firstError], [
    9,
    7,
    50,
    3,
    "status",
  ]);
});

Deno.test("warnings names each thing that spoils figures, and nothing on a clean run", () => {
  const text = (change: Partial<Repetition>, load: Partial<LoadResult> = {}) =>
    warnings([summarise("x", [repetition(change, load)])], true).join("\n");
  assertEquals(text({}), "");
  assertEquals(text({ producerCores: 0.95, clientCores: 0 }).includes("the producer was a bottleneck"), true);
  assertEquals(text({ clientCores: 0.95 }).includes("the client was a bottleneck"), true);
  assertEquals(text({ producerCores: 0.5, clientCores: 0.5 }).includes("the core they share (100 %"), true);
  assertEquals(text({ foreignCores: 0.5 }).includes("other processes used 50 %"), true);
  assertEquals(
    text({}, { errors_total: 4, first_error: "early_close" }).includes("4 errors, the first: early"),
    true,
  );
  assertEquals(text({}, { merged_tokens: 200 }).includes("20 % of tokens left together"), true);
  const sizes = [summarise("a", [repetition()]), summarise("b", [repetition({}, { body_bytes: 300_000 })])];
  assertEquals(warnings(sizes, true), ["events differ in size between arms: 170 to 300 bytes"]);
});

Deno.test("ratios compare each tokenplane arm with what ran, and say which bar holds", () => {
  const arm = (name: string, cpuUsPerToken: number) => summarise(name, [repetition({ cpuUsPerToken })]);
  const list = ratios([arm("floor", 4), arm("nginx", 10), arm("tokenplane", 7), arm("haproxy", 9)]);
  assertEquals(list.map(({ value, holds }) => [value, holds]), [[0.7, true], [1.75, false], [22, true], [
    20,
    true,
  ]]);
  assertEquals(ratios([arm("floor", 4), arm("nginx", 10)]), []);
  // Those with TLS among themselves.
  const tls = ratios([arm("floor", 4), arm("nginx", 5), arm("nginx-tls", 16), arm("tokenplane-tls", 12)]);
  assertEquals(tls.map(({ value, bar }) => [value, bar]), [[0.75, 1], [22, 22], [20, 21]]);
});

Deno.test("parseLoopDelay takes the worst shard, and null from a page without the metric", () => {
  const page = [
    "# HELP tokenplane_nodejs_eventloop_lag_p50_seconds The 50th percentile.",
    'tokenplane_nodejs_eventloop_lag_p50_seconds{shard="0"} 0.001',
    'tokenplane_nodejs_eventloop_lag_p50_seconds{shard="1"} 0.002',
    "tokenplane_nodejs_eventloop_lag_p99_seconds 0.004",
    "tokenplane_nodejs_eventloop_lag_max_seconds 8e-3",
    "tokenplane_nodejs_eventloop_lag_mean_seconds 9",
  ].join("\n");
  assertEquals(parseLoopDelay(page), { p50: 2, p99: 4, max: 8 });
  assertEquals(parseLoopDelay("other 1\n"), null);
});
