import { assertEquals } from "@std/assert";
import { newTransportStats } from "../../transports/stats.ts";
import { newTcpStats } from "../../transports/tcp/tcp_stats.ts";
import { addTransportMetrics } from "../../transports/metrics.ts";
import { Collectors } from "../../src/observe/metrics.ts";
import { Page } from "../support/metrics_page.ts";

Deno.test("addTransportMetrics keeps transports apart and speaks the wire's words", async () => {
  const tcp = { key: "tcp", stats: newTcpStats() };
  const other = { key: "ucx", stats: newTransportStats() };
  const collectors = new Collectors();
  addTransportMetrics(collectors, [tcp, other]);
  Object.assign(tcp.stats.rejections, {
    cut_frame: 2,
    peer_unknown: 3,
    too_large: 4,
    too_many_connections: 5,
  });
  tcp.stats.framesWrittenByType[4] = 6;
  tcp.stats.onWrite!(1_500, 0.1);
  tcp.stats.onWrite!(0.01, 9_000);
  other.stats.framesIn[3] = 7;
  const page = new Page((await collectors.page()).body);
  const reasons = ["send_error", "drain_rejected", "decode_error", "truncated_frame", "too_many_connections"];
  assertEquals(
    reasons.map((reason) => page.value("velo_transport_rejections_total", { transport: "tcp", reason })),
    [7, 0, 0, 2, 5],
  );
  const event = {
    transport: "ucx",
    direction: "inbound",
    message_type: "event",
    outcome: "accepted",
  };
  assertEquals(page.value("velo_transport_frames_total", event), 7);
  assertEquals(page.value("velo_transport_frames_total", { ...event, transport: "tcp" }), 0);
  const refusals = { transport: "tcp", message_type: "shutting_down" };
  assertEquals(page.value("velo_transport_frames_written_total", refusals), 6);
  assertEquals(page.sum("velo_transport_frames_written_total"), 6, "UCX has no writer");
  const at = (name: string, le: string) =>
    page.value(`velo_transport_${name}_seconds_bucket`, { transport: "tcp", le });
  assertEquals([at("egress_queue_wait", "1"), at("egress_queue_wait", "2")], [1, 2]);
  assertEquals([at("write_duration", "0.0001"), at("write_duration", "5"), at("write_duration", "+Inf")], [
    1,
    1,
    2,
  ]);
});
