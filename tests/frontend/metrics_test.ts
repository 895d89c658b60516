import { assert, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { FrontendStats } from "../../src/frontend/stats.ts";
import { addFrontendMetrics } from "../../src/frontend/metrics.ts";
import { Collectors } from "../../src/observe/metrics.ts";
import { WorkerTable } from "../../src/routing/worker_table.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

Deno.test("Collectors show a frontend's series in Prometheus form", async () => {
  const stats = new FrontendStats();
  const clock = new VirtualClock();
  const table = new WorkerTable({ clock, joinIntervalMs: 1_000, lostGraceMs: 500, maxWorkers: 4 });
  const collectors = new Collectors();
  addFrontendMetrics(collectors, stats, table);
  stats.requests.completions.unary.outcomes.dropped = 3;
  stats.countRefused("overloaded");
  for (const status of [200, 404, 418, 418, 599]) stats.responses.count(status);
  stats.gapSeconds.observe(0.002);
  const { body, contentType } = await collectors.page();
  assert(contentType.startsWith("text/plain"));
  const lines = body.split("\n");
  for (
    const line of [
      'tokenplane_frontend_requests_total{endpoint="completions",request_type="unary",outcome="dropped"} 3',
      'tokenplane_frontend_requests_total{endpoint="completions",request_type="unary",outcome="ok"} 0',
      'tokenplane_frontend_requests_refused_total{error_type="overloaded"} 1',
      'tokenplane_frontend_responses_total{status="200"} 1',
      'tokenplane_frontend_responses_total{status="404"} 1',
      'tokenplane_frontend_responses_total{status="502"} 0',
      'tokenplane_frontend_responses_total{status="4xx"} 2',
      'tokenplane_frontend_responses_total{status="5xx"} 1',
      'tokenplane_frontend_inter_token_latency_seconds_bucket{le="0.0019"} 0',
      'tokenplane_frontend_inter_token_latency_seconds_bucket{le="0.0035"} 1',
      'tokenplane_frontend_inter_token_latency_seconds_bucket{le="+Inf"} 1',
      "tokenplane_frontend_inter_token_latency_seconds_count 1",
      "# TYPE tokenplane_frontend_inter_token_latency_seconds histogram",
      'tokenplane_frontend_workers{state="ready"} 0',
    ]
  ) assert(lines.includes(line), `${line} is missing in\n${body}`);
  assertThrows(() => addFrontendMetrics(collectors, stats, table), TokenplaneError, "the name is taken");
});
