/**
 * The series of a mux (wire: 4.11, 5.3 and 8.13), read from its counts.
 *
 * | series | labels |
 * |---|---|
 * | `velo_streaming_anchor_operations_total` | operation, outcome, transport_scheme |
 * | `velo_streaming_anchor_operation_duration_seconds` | operation, outcome, transport_scheme |
 * | `velo_streaming_mux_records_dropped_total` | reason |
 * | `velo_streaming_mux_batches_total`, `velo_streaming_mux_records_per_batch` | direction |
 * | `velo_streaming_mux_records_sent_total` | record_type |
 * | `velo_streaming_mux_batcher_wakes_total` | source |
 * | `velo_streaming_active_anchors`, `velo_streaming_mux_live_slots`, and the plain ones below | |
 *
 * An attach is the claim of an anchor by a ticket or by `_anchor_attach`; on the side of a sender it is the round trip
 * of `_anchor_attach` (`--stream-setup attach`), the one operation that takes time. Not here, for want of what they
 * would count:
 *
 * | series | why |
 * |---|---|
 * | `velo_streaming_backpressure_total` | nothing queues between a slot and its consumer; it never ticks there either |
 * | `velo_streaming_reader_pump_backpressure_total`, `velo_streaming_server_pump_backpressure_total` | no pumps: a consumer reads its slot itself |
 * | `velo_streaming_egress_flushes_total`, `velo_streaming_frames_written_total` | of the one-connection-per-stream transport, which the mux replaces |
 */
import type { Collectors, HistogramCounts } from "../observe/metrics.ts";
import { doublingBounds } from "../observe/histogram.ts";
import type { Mux } from "../mux/mux.ts";
import { type MuxStats, RECORDS_PER_BATCH_BUCKETS } from "../mux/stats.ts";
import { MUX_TRANSPORT_KEY } from "./stream_control.ts";

const RECORD_BOUNDS = doublingBounds(1, RECORDS_PER_BATCH_BUCKETS - 1);
/** By RecordType. */
const RECORD_TYPES = ["data", "open_slot", "close_slot", "credit_update", "heartbeat"] as const;
const OUTCOMES = ["success", "error"] as const;

/** Adds the series; once per isolate. */
export function addMuxMetrics(collectors: Collectors, mux: Mux): void {
  addAnchorMetrics(collectors, mux);
  addBatchMetrics(collectors, mux.stats);
  addPlainMetrics(collectors, mux.stats);
}

function addAnchorMetrics(collectors: Collectors, { anchors, stats }: Mux): void {
  const operations = Object.entries(stats.anchors).flatMap(([operation, counts]) =>
    OUTCOMES.map((outcome) => ({
      histogram: counts[outcome],
      labels: { operation, outcome, transport_scheme: schemeOf(operation, outcome) },
    }))
  );
  collectors.add(
    "velo_streaming_anchor_operations_total",
    "What happened to anchors, and attaches of senders.",
    "counter",
    (emit) => {
      for (const { histogram, labels } of operations) emit(histogram.count, labels);
    },
  );
  collectors.addHistogram(
    "velo_streaming_anchor_operation_duration_seconds",
    "Time that an operation took: 0 but for a sender's attach.",
    (emit) => {
      for (const { histogram, labels } of operations) emit(histogram, labels);
    },
  );
  collectors.add("velo_streaming_active_anchors", "Streams registered here.", "gauge", () => anchors.size);
}

function schemeOf(operation: string, outcome: string): string {
  if (operation !== "attach") return "velo";
  return outcome === "success" ? MUX_TRANSPORT_KEY : "unknown";
}

function addBatchMetrics(collectors: Collectors, stats: MuxStats): void {
  collectors.add("velo_streaming_mux_batches_total", "Batches.", "counter", (emit) => {
    emit(stats.batchesSent, { direction: "sent" });
    emit(stats.batchesReceived, { direction: "received" });
  });
  collectors.addHistogram("velo_streaming_mux_records_per_batch", "Records of a batch.", (emit) => {
    const { batchesReceived, batchesSent, recordsDeclared, recordsSent } = stats;
    emit(perBatch(stats.recordsPerBatchSent, recordsSent, batchesSent), { direction: "sent" });
    emit(perBatch(stats.recordsPerBatchReceived, recordsDeclared, batchesReceived), {
      direction: "received",
    });
  });
  collectors.add(
    "velo_streaming_mux_records_sent_total",
    "Records in batches handed to the messenger.",
    "counter",
    (emit) => {
      RECORD_TYPES.forEach((record_type, type) => emit(stats.recordsSentByType[type]!, { record_type }));
    },
  );
  collectors.add("velo_streaming_mux_batcher_wakes_total", "What woke a batcher.", "counter", (emit) => {
    for (const [source, count] of Object.entries(stats.wakes)) emit(count, { source });
  });
  collectors.add(
    "velo_streaming_mux_records_dropped_total",
    "Records dropped, by why.",
    "counter",
    (emit) => {
      for (const [reason, count] of Object.entries(stats.dropped)) emit(count, { reason });
    },
  );
}

function perBatch(counts: Float64Array, sum: number, count: number): HistogramCounts {
  return { bounds: RECORD_BOUNDS, counts, sum, count };
}

function addPlainMetrics(collectors: Collectors, stats: MuxStats): void {
  const counters = [
    ["producer_send_backpressure_total", "Records that a producer was told to wait with.", "producerWaits"],
    [
      "heartbeat_watchdog_firings_total",
      "Streams ended because their sender fell silent.",
      "watchdogFirings",
    ],
    ["mux_reader_stall_total", "Slots that overflowed in spite of credit: a bug.", "readerStalls"],
    [
      "mux_generation_mismatch_total",
      "Records for an earlier or later user of their slot.",
      "generationMismatches",
    ],
    ["slot_credit_exhausted_total", "Times that a stream ran out of credit.", "creditExhausted"],
    ["mux_rendezvous_singletons_total", "Records too large for a shared batch.", "singletons"],
    ["mux_control_refused_total", "Control records refused for want of an entry.", "controlRefused"],
    ["mux_hold_overflow_total", "Slots that ran too far ahead of a gap.", "holdOverflows"],
    ["mux_epoch_deaths_total", "Lanes that died with streams or records on them.", "epochDeaths"],
    ["mux_batch_seq_gaps_total", "Gaps in the numbers of batches.", "batchSeqGaps"],
  ] as const;
  for (const [name, help, field] of counters) {
    collectors.add(`velo_streaming_${name}`, help, "counter", () => stats[field]);
  }
  collectors.add(
    "velo_streaming_mux_live_slots",
    "Slots open, as a receiver and as a sender.",
    "gauge",
    () => stats.liveIngressSlots + stats.liveEgressSlots,
  );
  const gauges = [
    ["held_records", "Records that came ahead of a gap.", "heldRecords"],
    ["withheld_records", "Records that wait for credit or room.", "withheldRecords"],
    ["staged_records", "Records in open batches.", "stagedRecords"],
  ] as const;
  for (const [name, help, field] of gauges) {
    collectors.add(`velo_streaming_mux_${name}`, help, "gauge", () => stats[field]);
  }
}
