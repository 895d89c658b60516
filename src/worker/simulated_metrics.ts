/** The series of a simulated engine, all its logical workers together. */
import type { Collectors } from "../observe/metrics.ts";
import type { SimulatedEngine } from "./engines/mocker/simulated_engine.ts";
import type { SimulatedWorker } from "./engines/mocker/simulated_worker.ts";

/** Adds them; once per isolate. */
export function addSimulatedMetrics(collectors: Collectors, { workers }: SimulatedEngine): void {
  const sum = (read: (worker: SimulatedWorker) => number) => () =>
    workers.reduce((total, worker) => total + read(worker), 0);
  const computed = sum(({ scheduler }) => scheduler.stats.computedTokens);
  const cached = sum(({ scheduler }) => scheduler.stats.cachedTokens);
  collectors.add(
    "tokenplane_mock_prompt_tokens_total",
    "Prompt tokens, by whether they were computed or found in the cache.",
    "counter",
    (emit) => {
      emit(computed(), { source: "computed" });
      emit(cached(), { source: "cached" });
    },
  );
  const counters = [
    ["passes_total", "Forward passes.", sum(({ scheduler }) => scheduler.stats.passes)],
    [
      "preemptions_total",
      "Requests that had to start over.",
      sum(({ scheduler }) => scheduler.stats.preemptions),
    ],
    ["evictions_total", "Blocks given up for others.", sum(({ blocks }) => blocks.stats.evictions)],
  ] as const;
  for (const [name, help, read] of counters) collectors.add(`tokenplane_mock_${name}`, help, "counter", read);
  const [running, waiting] = [
    sum(({ scheduler }) => scheduler.running),
    sum(({ scheduler }) => scheduler.waiting),
  ];
  collectors.add("tokenplane_mock_requests", "Requests in the simulated GPUs.", "gauge", (emit) => {
    emit(running(), { state: "running" });
    emit(waiting(), { state: "waiting" });
  });
  const [active, inactive] = [sum(({ blocks }) => blocks.active), sum(({ blocks }) => blocks.inactive)];
  collectors.add("tokenplane_mock_kv_blocks", "Blocks in the caches.", "gauge", (emit) => {
    emit(active(), { state: "active" });
    emit(inactive(), { state: "inactive" });
  });
}
