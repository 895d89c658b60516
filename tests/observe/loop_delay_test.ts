import { assert, assertEquals } from "@std/assert";
import { addLoopDelayMetrics, LoopDelay } from "../../src/observe/loop_delay.ts";
import { Collectors } from "../../src/observe/metrics.ts";
import { parseLoopDelay } from "../../bench/relay/loop_delay.ts";

Deno.test("LoopDelay gives percentiles since they were last taken, and the exact maximum", () => {
  const delay = new LoopDelay();
  assertEquals(delay.take(), { p50: 0, p99: 0, max: 0 });
  for (let i = 0; i < 98; i++) delay.record(0.0007);
  delay.record(0.06);
  delay.record(0.061);
  assertEquals(delay.take(), { p50: 0.001, p99: 0.061, max: 0.061 });
  delay.record(-0.001);
  assertEquals(delay.take(), { p50: 0, p99: 0, max: 0 });
  delay.record(99);
  assertEquals(delay.take(), { p50: 99, p99: 99, max: 99 });
  assertEquals([delay.count, delay.counts.reduce((sum, count) => sum + count)], [102, 102]);
});

Deno.test("LoopDelay sees a blocked loop", async () => {
  const delay = new LoopDelay();
  delay.start();
  await new Promise((resolve) => setTimeout(resolve, 30));
  const until = performance.now() + 80;
  while (performance.now() < until);
  await new Promise((resolve) => setTimeout(resolve, 30));
  delay.stop();
  // A block can begin as much as an interval before the timer is due.
  assert(delay.take().max >= 0.055);
});

Deno.test("addLoopDelayMetrics shows what the benchmark reads", async () => {
  const collectors = new Collectors();
  const delay = new LoopDelay();
  addLoopDelayMetrics(collectors, delay, { shard: "0" });
  delay.record(0.0121);
  const { body } = await collectors.page();
  assertEquals(parseLoopDelay(body), { p50: 12.1, p99: 12.1, max: 12.1 });
  assert(body.includes('tokenplane_eventloop_delay_seconds_count{shard="0"} 1'), body);
  assertEquals(parseLoopDelay((await collectors.page()).body)?.max, 0);
});
