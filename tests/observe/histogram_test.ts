import { assertEquals } from "@std/assert";
import { doublingBounds, Histogram, OperationStats } from "../../src/observe/histogram.ts";

Deno.test("Histogram counts each value in the first bucket that holds it", () => {
  const histogram = new Histogram([1, 2, 4]);
  for (const value of [0.5, 1, 1.5, 4, 9]) histogram.observe(value);
  assertEquals([...histogram.counts], [2, 1, 1, 1]);
  assertEquals([histogram.sum, histogram.count], [16, 5]);
});

Deno.test("OperationStats counts in seconds, by outcome", () => {
  const stats = new OperationStats(doublingBounds(0.5, 3));
  stats.observe(true);
  stats.observe(true, 1_000);
  stats.observe(false, 2_500);
  assertEquals([...stats.success.bounds], [0.5, 1, 2]);
  assertEquals([...stats.success.counts], [1, 1, 0, 0]);
  assertEquals([...stats.error.counts, stats.error.sum], [0, 0, 0, 1, 2.5]);
});
