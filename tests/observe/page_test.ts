import { assert, assertEquals } from "@std/assert";
import { deadline, delay } from "@std/async";
import { chat, eventsOf, Program } from "../support/program.ts";
import { Page } from "../support/metrics_page.ts";

const LIMIT_MS = 20_000;
const FRONTEND_SERIES = new URL("./frontend_series.txt", import.meta.url);
const WORKER_SERIES = new URL("./worker_series.txt", import.meta.url);

async function until(url: string, status: number): Promise<void> {
  for (;;) {
    const answer = await fetch(url);
    await answer.body?.cancel();
    if (answer.status === status) return;
    await delay(10);
  }
}

/** Names and labels, those of the runtime apart: they are prom-client's and differ by version. */
function shapes(page: Page): string[] {
  return page.shapes().filter((shape) => !/ tokenplane_(?:nodejs|process)_/.test(shape));
}

Deno.test("/metrics of frontend and worker has exactly the listed series, and a stream moves them", async (t) => {
  const anyPort = ["--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--shards", "1"];
  await using frontend = new Program(["frontend", ...anyPort, "--log-ttft-split", "on"]);
  const [, url, node] = await deadline(
    frontend.ready(/serves on (http:\S+), workers join at (\S+)/),
    LIMIT_MS,
  );
  const mock = ["--mock-ttft-ms", "20", "--mock-itl-ms", "1", "--mock-default-tokens", "64"];
  await using worker = new Program([
    "worker",
    "--frontend",
    node!,
    "--metrics-listen",
    "127.0.0.1:0",
    ...mock,
  ]);
  const [, status] = await deadline(worker.ready(/shows metrics at (\S+)/), LIMIT_MS);
  await deadline(until(`${status}/health`, 200), LIMIT_MS);
  await deadline(until(`${url}/health`, 200), LIMIT_MS);
  const text = await (await chat(url!, {}, { headers: { "x-request-id": "split-me" } })).text();
  assertEquals(eventsOf(text).length, 67);
  // The last grants and closes are on their way.
  await delay(50);
  const [front, back] = await Promise.all([Page.read(`${url}/metrics`), Page.read(`${status}/metrics`)]);

  await t.step("names and labels are the listed ones", async () => {
    assertEquals(shapes(front), (await Deno.readTextFile(FRONTEND_SERIES)).trim().split("\n"));
    assertEquals(shapes(back), (await Deno.readTextFile(WORKER_SERIES)).trim().split("\n"));
  });

  await t.step("records, batches and credit", () => {
    const sent = (page: Page, record_type: string) =>
      page.value("velo_streaming_mux_records_sent_total", { record_type });
    assertEquals(sent(back, "open_slot"), 1);
    assertEquals(sent(back, "close_slot"), 1);
    // Head, chunks, summary and the terminal.
    assertEquals(sent(back, "data"), back.value("tokenplane_worker_records_sent_total") + 3);
    assertEquals(back.value("tokenplane_worker_records_sent_total"), 66);
    assert(sent(front, "credit_update") > 0);
    assertEquals(sent(front, "data"), 0);
    for (const [from, to] of [[front, back], [back, front]] as const) {
      const batches = from.value("velo_streaming_mux_batches_total", { direction: "sent" });
      assert(batches > 0);
      assertEquals(to.value("velo_streaming_mux_batches_total", { direction: "received" }), batches);
      const perBatch = "velo_streaming_mux_records_per_batch";
      assertEquals(from.value(`${perBatch}_count`, { direction: "sent" }), batches);
      assertEquals(from.value(`${perBatch}_bucket`, { direction: "sent", le: "2048" }), batches);
      const types = ["data", "open_slot", "close_slot", "credit_update", "heartbeat"];
      assertEquals(
        to.value(`${perBatch}_sum`, { direction: "received" }),
        types.reduce((sum, type) => sum + sent(from, type), 0),
      );
      assert(from.sum("velo_streaming_mux_batcher_wakes_total") >= batches);
    }
    assertEquals(front.sum("velo_streaming_mux_records_dropped_total"), 0);
  });

  await t.step("anchors", () => {
    const operations = "velo_streaming_anchor_operations_total";
    const attach = { operation: "attach", outcome: "success", transport_scheme: "messenger-mux-v1" };
    assertEquals(front.value(operations, attach), 1);
    const finalize = { operation: "finalize", outcome: "success", transport_scheme: "velo" };
    assertEquals(front.value(operations, finalize), 1);
    assertEquals([front.sum(operations), back.sum(operations)], [2, 0]);
    assertEquals(front.value("velo_streaming_active_anchors"), 0);
    assertEquals(front.value("velo_streaming_mux_live_slots"), 0);
  });

  await t.step("frames, writes, lanes and handlers", () => {
    for (const page of [front, back]) {
      const messages = { transport: "tcp", message_type: "message" };
      const admitted = page.value("velo_transport_frames_total", {
        ...messages,
        direction: "outbound",
        outcome: "accepted",
      });
      assertEquals(page.value("velo_transport_frames_written_total", messages), admitted);
      const writes = page.value("velo_transport_write_duration_seconds_count", { transport: "tcp" });
      assertEquals(
        page.value("velo_transport_egress_queue_wait_seconds_count", { transport: "tcp" }),
        writes,
      );
      assert(writes > 0 && writes <= page.sum("velo_transport_frames_written_total"));
      const lane = { handler: "_stream_batch" };
      assert(page.value("velo_messenger_ordered_lanes", lane) > 0);
      assertEquals(
        page.value("velo_messenger_ordered_lane_wait_seconds_count", lane),
        page.value("velo_streaming_mux_batches_total", { direction: "received" }),
      );
      assertEquals(page.sum("velo_messenger_dispatch_failures_total"), 0);
    }
    const generate = { handler: "_tp_generate", response_type: "ack_nack", outcome: "success" };
    assertEquals(back.value("velo_messenger_handler_requests_total", generate), 1);
    assertEquals(back.value("velo_messenger_handler_duration_seconds_count", generate), 1);
    assert(
      front.value("velo_messenger_client_resolution_total", { path: "direct", outcome: "success" }) >= 1,
    );
  });

  await t.step("the worker's own, and the split of the frontend", () => {
    assertEquals(back.value("tokenplane_worker_requests_total", { outcome: "ok" }), 1);
    assertEquals(back.value("tokenplane_worker_output_tokens_total"), 64);
    assertEquals(back.value("tokenplane_worker_running"), 0);
    assertEquals(back.value("tokenplane_worker_frontends", { state: "joined" }), 1);
    const sums = ["intake", "queue", "prefill", "decode"].map((part) => {
      assertEquals(front.value(`tokenplane_frontend_request_${part}_time_seconds_count`), 1, part);
      return front.value(`tokenplane_frontend_request_${part}_time_seconds_sum`);
    });
    const row = / TTFTSPLIT rid=split-me intake=(\S+) queued=(\S+) prefill=(\S+) decode=(\S+) e2e=(\S+)\n/
      .exec(frontend.stderr);
    assert(row !== null, frontend.stderr);
    const [intake, queued, prefill, decode, e2e] = row.slice(1).map(Number);
    assert(Math.abs(intake! + queued! + prefill! + decode! - e2e!) < 0.01, row[0]);
    assert(prefill! > 5 && decode! > 30, row[0]);
    assert(Math.abs(sums.reduce((a, b) => a + b) * 1_000 - e2e!) < 0.01, row[0]);
  });

  await t.step("a worker's health follows its frontends, and its drain", async () => {
    assertEquals(await (await fetch(`${status}/live`)).json(), { status: "live" });
    const health = await (await fetch(`${status}/health`)).json();
    assertEquals([health.status, health.models, health.frontends[0].joined], ["healthy", ["mock"], true]);
    const wrong = await fetch(`${status}/metrics`, { method: "POST" });
    assertEquals([wrong.status, wrong.headers.get("allow")], [405, "GET, HEAD"]);
    await wrong.body?.cancel();
    frontend.kill("SIGKILL");
    await frontend.finished();
    await deadline(until(`${status}/health`, 503), LIMIT_MS);
    worker.kill("SIGTERM");
    const { code, stderr } = await deadline(worker.finished(), LIMIT_MS);
    assertEquals(code, 0, stderr);
  });
});
