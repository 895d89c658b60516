/**
 * The series of one transport (wire: 5.3 and 8.13), read from its counts.
 *
 * | series | labels |
 * |---|---|
 * | `velo_transport_frames_total` | transport, direction, message_type, outcome (always `accepted`) |
 * | `velo_transport_frame_bytes_total` | transport, direction, message_type |
 * | `velo_transport_rejections_total` | transport, reason |
 * | `velo_transport_send_backpressure_total`, `…_registered_peers`, `…_active_connections` | transport |
 * | `velo_transport_frames_written_total` | transport, message_type; of socket writers alone |
 * | `velo_transport_egress_queue_wait_seconds`, `…_write_duration_seconds` | transport; of socket writers alone |
 *
 * Both histograms have one value per write: the wait is that of the oldest frame in it. Rejections that the wire has no
 * word for keep their own: `too_many_connections`, and UCX's `rendezvous`. Not here, for want of what they would count:
 * `missing_headers`, `missing_type`, `invalid_type`, `invalid_header_length` (all are `decode_error`, and cost the
 * connection), `route_failed` (a frame goes straight to its handler), `drain_reply_build_failed` (a refusal is the
 * refused header itself).
 */
import { Histogram } from "../src/observe/histogram.ts";
import type { Collectors, Labels } from "../src/observe/metrics.ts";
import type { TransportStats } from "./contract.ts";

/** By MessageType. */
const MESSAGE_TYPES = ["message", "response", "ack", "event", "shutting_down"] as const;
/** A healthy write takes 0.05 ms; what matters of a queue lies between 10 ms and 1 s. Seconds. */
const EGRESS_BOUNDS = [
  0.00005,
  0.0001,
  0.00025,
  0.0005,
  0.001,
  0.0025,
  0.005,
  0.01,
  0.025,
  0.05,
  0.1,
  0.2,
  0.35,
  0.5,
  0.75,
  1,
  2,
  5,
];
/** Words of the wire for what our transports say. */
const REJECTION_REASONS: Readonly<Record<string, string>> = Object.freeze({
  drain_rejected: "drain_rejected",
  decode_error: "decode_error",
  cut_frame: "truncated_frame",
  receive_error: "decode_error",
  closed: "send_error",
  connection: "send_error",
  internal: "send_error",
  peer_unknown: "send_error",
  too_large: "send_error",
});
/** Shown from the start, at 0. */
const COMMON_REASONS = ["send_error", "drain_rejected", "decode_error", "truncated_frame"] as const;

/** What a transport that writes to sockets counts beside the common counts. */
export interface WriterStats {
  /** By MessageType. */
  readonly framesWrittenByType: readonly number[];
  onWrite: ((queueWaitMs: number, writeMs: number) => void) | null;
}

/** A transport that counts. */
export interface CountingTransport {
  readonly key: string;
  readonly stats: TransportStats & Partial<WriterStats>;
}

interface Bound {
  readonly stats: TransportStats;
  readonly transport: Labels;
  readonly types: readonly { readonly inbound: Labels; readonly outbound: Labels }[];
  readonly writer: Writer | null;
}

interface Writer {
  readonly framesByType: readonly number[];
  readonly labels: readonly Labels[];
  readonly queueWait: Histogram;
  readonly write: Histogram;
}

/** Adds the series of all transports of a node; once per isolate. Takes the `onWrite` hook of those that have one. */
export function addTransportMetrics(collectors: Collectors, transports: readonly CountingTransport[]): void {
  const bound = transports.map(bind);
  const writers = bound.flatMap(({ writer, transport }) => writer === null ? [] : [{ ...writer, transport }]);

  collectors.add("velo_transport_frames_total", "Frames; outbound ones when admitted.", "counter", (emit) => {
    for (const { stats, types } of bound) {
      types.forEach(({ inbound, outbound }, type) => {
        emit(stats.framesIn[type]!, { ...inbound, outcome: "accepted" });
        emit(stats.framesOut[type]!, { ...outbound, outcome: "accepted" });
      });
    }
  });
  collectors.add("velo_transport_frame_bytes_total", "Bytes of header and payload.", "counter", (emit) => {
    for (const { stats, types } of bound) {
      types.forEach(({ inbound, outbound }, type) => {
        emit(stats.bytesIn[type]!, inbound);
        emit(stats.bytesOut[type]!, outbound);
      });
    }
  });
  collectors.add("velo_transport_rejections_total", "Frames not taken or not sent.", "counter", (emit) => {
    for (const { stats, transport } of bound) {
      for (const [reason, count] of rejections(stats)) emit(count, { ...transport, reason });
    }
  });
  const plain = [
    ["send_backpressure_total", "Sends that had to wait for admission.", "counter", "backpressure"],
    ["registered_peers", "Peers whose address is known.", "gauge", "peers"],
    ["active_connections", "Connections, in both directions.", "gauge", "connections"],
  ] as const;
  for (const [name, help, type, field] of plain) {
    collectors.add(`velo_transport_${name}`, help, type, (emit) => {
      for (const { stats, transport } of bound) emit(stats[field], transport);
    });
  }
  collectors.add("velo_transport_frames_written_total", "Frames that a socket took.", "counter", (emit) => {
    for (const { framesByType, labels } of writers) {
      labels.forEach((one, type) => emit(framesByType[type]!, one));
    }
  });
  collectors.addHistogram(
    "velo_transport_egress_queue_wait_seconds",
    "From the admission of a write's oldest frame to the start of the write.",
    (emit) => {
      for (const { queueWait, transport } of writers) emit(queueWait, transport);
    },
  );
  collectors.addHistogram("velo_transport_write_duration_seconds", "Time that a write took.", (emit) => {
    for (const { write, transport } of writers) emit(write, transport);
  });
}

function bind({ key, stats }: CountingTransport): Bound {
  const transport = { transport: key };
  return {
    stats,
    transport,
    types: MESSAGE_TYPES.map((message_type) => ({
      inbound: { transport: key, direction: "inbound", message_type },
      outbound: { transport: key, direction: "outbound", message_type },
    })),
    writer: bindWriter(key, stats),
  };
}

function bindWriter(transport: string, stats: Partial<WriterStats>): Writer | null {
  if (stats.framesWrittenByType === undefined) return null;
  const queueWait = new Histogram(EGRESS_BOUNDS);
  const write = new Histogram(EGRESS_BOUNDS);
  stats.onWrite = (queueWaitMs, writeMs) => {
    queueWait.observe(queueWaitMs / 1_000);
    write.observe(writeMs / 1_000);
  };
  const labels = MESSAGE_TYPES.map((message_type) => ({ transport, message_type }));
  return { framesByType: stats.framesWrittenByType, labels, queueWait, write };
}

function rejections(stats: TransportStats): Map<string, number> {
  const sums = new Map<string, number>(COMMON_REASONS.map((reason) => [reason, 0]));
  for (const [own, count] of Object.entries(stats.rejections)) {
    const reason = REJECTION_REASONS[own] ?? own;
    sums.set(reason, (sums.get(reason) ?? 0) + count);
  }
  return sums;
}
