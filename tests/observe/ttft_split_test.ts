import { assertEquals } from "@std/assert";
import { SplitStats, TtftSplit } from "../../src/frontend/ttft_split.ts";
import { createLogger } from "../../src/observe/log.ts";

type Step = "dispatched" | "accepted" | "firstRecord";

function finish(steps: readonly (readonly [Step, number])[], end: number) {
  const stats = new SplitStats();
  const lines: string[] = [];
  const log = createLogger({ write: (line) => void lines.push(line.replace(/^\S+ /, "").trim()) });
  const split = new TtftSplit(10);
  for (const [step, now] of steps) split[step](now);
  split.finish(end, stats, "a", log);
  const { faults, ...parts } = stats;
  return {
    line: lines.join("\n"),
    sums: Object.values(parts).map(({ sum }) => Math.round(sum * 1_000)),
    counts: Object.values(parts).map(({ count }) => count),
    faults,
  };
}

Deno.test("TtftSplit shows where a request's time went, or says that its row cannot be right", async (t) => {
  const none = { unstamped: 0, negative: 0 };
  await t.step("all stamps", () => {
    assertEquals(finish([["dispatched", 12], ["accepted", 15], ["firstRecord", 65.0004]], 165), {
      line: "info  TTFTSPLIT rid=a intake=2 queued=3 prefill=50 decode=100 e2e=155",
      sums: [2, 3, 50, 100],
      counts: [1, 1, 1, 1],
      faults: none,
    });
  });
  await t.step("a second worker: time lost with the first counts as queued", () => {
    const steps = [["dispatched", 12], ["accepted", 15], ["dispatched", 40], ["accepted", 42], [
      "firstRecord",
      50,
    ]] as const;
    assertEquals(
      finish(steps, 60).line,
      "info  TTFTSPLIT rid=a intake=2 queued=30 prefill=8 decode=10 e2e=50",
    );
  });
  await t.step("an acceptance behind the first record", () => {
    const result = finish([["dispatched", 12], ["firstRecord", 30], ["accepted", 31]], 60);
    assertEquals(result.line, "info  TTFTSPLIT rid=a intake=2 queued=18 prefill=0 decode=30 e2e=50");
  });
  await t.step("a request that ended before its first record", () => {
    assertEquals(finish([["dispatched", 12]], 20), {
      line: 'info  TTFTSPLIT rid=a unstamped="accepted,first_record" e2e=10',
      sums: [0, 0, 0, 0],
      counts: [0, 0, 0, 0],
      faults: { unstamped: 1, negative: 0 },
    });
  });
  await t.step("times that run backwards", () => {
    const result = finish([["dispatched", 5], ["accepted", 15], ["firstRecord", 20]], 30);
    assertEquals(result.line, 'warn  TTFTSPLIT rid=a negative="-5,10,5,10"');
    assertEquals([result.counts, result.faults], [[0, 0, 0, 0], { unstamped: 0, negative: 1 }]);
  });
});
