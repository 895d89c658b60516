/** The series of a frontend. */
import type { Collectors, Labels } from "../observe/metrics.ts";
import { OUTCOMES } from "../outcome.ts";
import type { WorkerTable } from "../routing/worker_table.ts";
import { ENDPOINTS } from "./endpoints.ts";
import type { FrontendStats, RequestStats } from "./stats.ts";

const SPLIT_HELP: Readonly<Record<string, string>> = Object.freeze({
  intake: "From a request's head to the first worker asked.",
  queue: "From there until a worker has accepted it.",
  prefill: "From there to its first record.",
  decode: "From there to the end of its response.",
});

/** Adds a frontend's series; once per shard. */
export function addFrontendMetrics(collectors: Collectors, stats: FrontendStats, table: WorkerTable): void {
  const kinds: { readonly stats: RequestStats; readonly labels: Labels }[] = [];
  for (const endpoint of ENDPOINTS) {
    for (const kind of ["stream", "unary"] as const) {
      kinds.push({ stats: stats.requests[endpoint][kind], labels: { endpoint, request_type: kind } });
    }
  }
  const outcomes = kinds.flatMap((kind) =>
    OUTCOMES.map((outcome) => ({ stats: kind.stats, outcome, labels: { ...kind.labels, outcome } }))
  );

  collectors.add(
    "tokenplane_frontend_requests_started_total",
    "Requests that a worker was asked for.",
    "counter",
    (emit) => {
      for (const kind of kinds) emit(kind.stats.started, kind.labels);
    },
  );
  collectors.add(
    "tokenplane_frontend_requests_total",
    "Requests that workers were asked for and did not refuse, by how they ended.",
    "counter",
    (emit) => {
      for (const entry of outcomes) emit(entry.stats.outcomes[entry.outcome], entry.labels);
    },
  );
  collectors.add(
    "tokenplane_frontend_requests_refused_total",
    "Requests that were refused, by us or by every worker asked, by error. They have no outcome.",
    "counter",
    (emit) => {
      for (const [error_type, count] of Object.entries(stats.refused)) emit(count, { error_type });
    },
  );
  collectors.add(
    "tokenplane_frontend_responses_total",
    "Requests for completions that have ended, by HTTP status; 499: the client left.",
    "counter",
    (emit) => {
      for (const [status, count] of stats.responses.entries()) emit(count, { status });
    },
  );
  collectors.addHistogram(
    "tokenplane_frontend_time_to_first_token_seconds",
    "From a request's last byte to its first data record.",
    (emit) => {
      for (const kind of kinds) emit(kind.stats.firstTokenSeconds, kind.labels);
    },
  );
  collectors.addHistogram(
    "tokenplane_frontend_request_duration_seconds",
    "From a request's last byte to its outcome.",
    (emit) => {
      for (const kind of kinds) emit(kind.stats.durationSeconds, kind.labels);
    },
  );
  collectors.addHistogram(
    "tokenplane_frontend_inter_token_latency_seconds",
    "Between two writes of one stream.",
    () => stats.gapSeconds,
  );

  const { faults, ...parts } = stats.split;
  for (const [part, histogram] of Object.entries(parts)) {
    collectors.addHistogram(
      `tokenplane_frontend_request_${part}_time_seconds`,
      SPLIT_HELP[part]!,
      () => histogram,
    );
  }
  collectors.add(
    "tokenplane_frontend_request_split_faults_total",
    "Finished requests that these times leave out: ended before a record, or with times that cannot be.",
    "counter",
    (emit) => {
      for (const [reason, count] of Object.entries(faults)) emit(count, { reason });
    },
  );

  const counters = [
    ["records_received_total", "Data records taken from workers.", () => stats.recordsIn],
    ["chunks_sent_total", "Body chunks written to clients of streams.", () => stats.chunksOut],
    ["bytes_sent_total", "Body bytes written to clients of streams.", () => stats.bytesOut],
    ["client_stalls_total", "Times that a client's socket could take no more.", () => stats.stalls],
    ["retries_total", "Requests given to another worker.", () => stats.retries],
    ["keep_alives_total", "Comment lines written to silent streams.", () => stats.keepAlives],
    ["prompt_tokens_total", "Prompt tokens, as engines reported them.", () => stats.promptTokens],
    ["output_tokens_total", "Completion tokens, as engines reported them.", () => stats.completionTokens],
  ] as const;
  for (const [name, help, read] of counters) {
    collectors.add(`tokenplane_frontend_${name}`, help, "counter", read);
  }
  collectors.add(
    "tokenplane_frontend_inflight_requests",
    "Requests whose response has begun and not ended.",
    "gauge",
    () => stats.live,
  );
  collectors.add(
    "tokenplane_frontend_queued_requests",
    "Requests that wait for their first record.",
    "gauge",
    () => stats.queued,
  );
  // Each worker joins every shard, so it must not be counted once for each.
  collectors.add(
    "tokenplane_frontend_workers",
    "Workers, by state.",
    "gauge",
    (emit) => {
      const counts = { ready: 0, lost: 0, draining: 0, gone: 0 };
      for (const worker of table.workers()) counts[worker.state]++;
      emit(counts.ready, { state: "ready" });
      emit(counts.lost, { state: "lost" });
      emit(counts.draining, { state: "draining" });
    },
    "max",
  );
}
