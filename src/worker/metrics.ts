/** The series of a worker. */
import type { Collectors } from "../observe/metrics.ts";
import type { Engine } from "./engines/engine.ts";
import type { WorkerNode } from "./node.ts";

/** Refusals shown from the start, at 0. */
const COMMON_REFUSALS = ["overloaded", "unavailable", "invalid_request", "internal"] as const;

/** Adds a worker's series; once per isolate. */
export function addWorkerMetrics(collectors: Collectors, worker: WorkerNode, engine: Engine): void {
  const { stats } = worker.status;
  collectors.add(
    "tokenplane_worker_requests_total",
    "Requests that were accepted, by how they ended.",
    "counter",
    (emit) => {
      for (const [outcome, count] of Object.entries(stats.outcomes)) emit(count, { outcome });
    },
  );
  collectors.add("tokenplane_worker_refused_total", "Requests refused, by error.", "counter", (emit) => {
    const refused = { ...Object.fromEntries(COMMON_REFUSALS.map((code) => [code, 0])), ...stats.refused };
    for (const [code, count] of Object.entries(refused)) emit(count, { code });
  });
  const counters = [
    ["requests_accepted_total", "Requests accepted.", () => stats.accepted],
    ["records_sent_total", "Data records that the engine gave.", () => stats.sent.records],
    ["bytes_sent_total", "Bytes of these records.", () => stats.sent.bytes],
    ["prompt_tokens_total", "Prompt tokens, as the engine reported them.", () => stats.promptTokens],
    ["output_tokens_total", "Completion tokens, as the engine reported them.", () => stats.completionTokens],
  ] as const;
  for (const [name, help, read] of counters) {
    collectors.add(`tokenplane_worker_${name}`, help, "counter", read);
  }
  collectors.add(
    "tokenplane_worker_running",
    "Requests accepted and not over.",
    "gauge",
    () => worker.status.inFlight,
  );
  collectors.add(
    "tokenplane_worker_frontends",
    "Nodes of frontends, by whether this worker is joined there.",
    "gauge",
    (emit) => {
      const { frontends } = worker.status;
      const joined = frontends.filter((one) => one.joined).length;
      emit(joined, { state: "joined" });
      emit(frontends.length - joined, { state: "away" });
    },
  );
  if (engine.connections === undefined) return;
  collectors.add(
    "tokenplane_worker_engine_connections",
    "Connections to the engine's server.",
    "gauge",
    (emit) => {
      const { busy = 0, idle = 0 } = engine.connections ?? {};
      emit(busy, { state: "busy" });
      emit(idle, { state: "idle" });
    },
  );
  collectors.add(
    "tokenplane_worker_engine_waiting",
    "Requests that wait for a connection to the engine's server.",
    "gauge",
    () => engine.connections?.waiting ?? 0,
  );
}
