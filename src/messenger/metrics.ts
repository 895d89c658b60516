/**
 * The series of a messenger (wire: 5.3 and 8.13), read from its counts.
 *
 * | series | labels |
 * |---|---|
 * | `velo_messenger_handler_requests_total` | handler, response_type, outcome |
 * | `velo_messenger_handler_duration_seconds` | handler, response_type, outcome |
 * | `velo_messenger_handler_request_bytes_total` | handler, response_type |
 * | `velo_messenger_handler_response_bytes_total` | handler, response_type, outcome |
 * | `velo_messenger_handler_in_flight` | handler |
 * | `velo_messenger_ordered_lanes`, `…_lane_depth`, `…_lane_wait_seconds`, `…_lanes_created_total` | handler |
 * | `velo_messenger_dispatch_failures_total` | stage, reason |
 * | `velo_messenger_client_resolution_total` | path, outcome |
 * | `velo_messenger_pending_responses`, `velo_messenger_response_slot_exhausted_total` | |
 * | `velo_rendezvous_operations_total`, `velo_rendezvous_operation_duration_seconds` | operation, outcome |
 * | `velo_rendezvous_bytes_total` | operation |
 * | `velo_rendezvous_active_slots` | |
 *
 * Handlers of the wire's own (`_…`) have no handler series; this program's (`_tp_…`) do. Handlers run in the call that
 * brings their message, so `_stream_batch` has the one lane per inbound connection, never a depth and never a wait.
 *
 * Not here, for want of what they would count: resolution by `discovery` (peers are told, not found); dispatch failures
 * of the stages `deserialize` and `serialize` (outcome `error` of the handler); rendezvous operations `metadata` and
 * `ref` (payloads are pulled or forgotten, never shared). Reasons beyond the wire's: decode `sender_changed`,
 * `response`, `ack`; dispatch `event`, `overloaded`, `staging`; response_send `unanswerable`, `answer_lost`,
 * `answer_too_large`, in place of its response types.
 */
import { DURATION_BOUNDS, Histogram } from "../observe/histogram.ts";
import type { Collectors, Emit, EmitHistogram, HistogramCounts, Labels } from "../observe/metrics.ts";
import type { HandlerEntry } from "./handlers.ts";
import type { Messenger } from "./messenger.ts";

const LANE_HANDLER = "_stream_batch";
const OWN_HANDLERS = "_tp_";
/** By ResponseType. */
const RESPONSE_TYPES = ["fire_and_forget", "ack_nack", "unary"] as const;
const OUTCOMES = ["success", "error"] as const;
/** By what the messenger calls them. */
const DISPATCH_FAILURES = {
  active_message: ["decode", "active_message"],
  sender_changed: ["decode", "sender_changed"],
  response: ["decode", "response"],
  ack: ["decode", "ack"],
  event: ["dispatch", "event"],
  unknown_handler: ["dispatch", "unknown_handler"],
  overloaded: ["dispatch", "overloaded"],
  staging: ["dispatch", "staging"],
  unanswerable: ["response_send", "unanswerable"],
  answer_lost: ["response_send", "answer_lost"],
  answer_too_large: ["response_send", "answer_too_large"],
} as const;

/** Adds the series; once per isolate. */
export function addMessengerMetrics(collectors: Collectors, messenger: Messenger): void {
  addHandlerMetrics(collectors, messenger);
  addLaneMetrics(collectors, messenger);
  addCallMetrics(collectors, messenger);
  addStagingMetrics(collectors, messenger);
}

function addHandlerMetrics(collectors: Collectors, { handlers }: Messenger): void {
  const shown = (): HandlerEntry[] => {
    return [...handlers.entries()].filter(({ name }) =>
      !name.startsWith("_") || name.startsWith(OWN_HANDLERS)
    );
  };
  const byOutcome = (visit: (entry: HandlerEntry, type: number, index: 0 | 1, labels: Labels) => void) => {
    for (const entry of shown()) {
      RESPONSE_TYPES.forEach((response_type, type) => {
        // A handler is called in one way; the others would only be zeros.
        if (entry.stats.requests[type] === 0) return;
        OUTCOMES.forEach((outcome, index) => {
          visit(entry, type, index as 0 | 1, { handler: entry.name, response_type, outcome });
        });
      });
    }
  };
  collectors.add("velo_messenger_handler_requests_total", "Requests answered.", "counter", (emit) => {
    byOutcome(({ stats }, type, index, labels) => {
      emit(stats.answered[type]![OUTCOMES[index]!].count, labels);
    });
  });
  collectors.addHistogram(
    "velo_messenger_handler_duration_seconds",
    "From a request to its answer.",
    (emit) => {
      byOutcome(({ stats }, type, index, labels) => emit(stats.answered[type]![OUTCOMES[index]!], labels));
    },
  );
  collectors.add("velo_messenger_handler_request_bytes_total", "Payload bytes.", "counter", (emit) => {
    byOutcome(({ stats }, type, index, { outcome: _, ...labels }) => {
      if (index === 0) emit(stats.answered[type]!.requestBytes, labels);
    });
  });
  collectors.add("velo_messenger_handler_response_bytes_total", "Payload bytes.", "counter", (emit) => {
    byOutcome(({ stats }, type, index, labels) => {
      const { errorBytes, responseBytes } = stats.answered[type]!;
      emit(index === 0 ? responseBytes : errorBytes, labels);
    });
  });
  collectors.add("velo_messenger_handler_in_flight", "Requests not answered yet.", "gauge", (emit) => {
    for (const { name, stats } of shown()) emit(stats.inFlight, { handler: name });
  });
}

function addLaneMetrics(collectors: Collectors, { handlers, lanes }: Messenger): void {
  const labels = { handler: LANE_HANDLER };
  const always = "handled in the call that brings it, so always 0";
  collectors.add("velo_messenger_ordered_lanes", "Inbound connections with a sender.", "gauge", (emit) => {
    emit(lanes.lanes, labels);
  });
  collectors.add("velo_messenger_ordered_lane_depth", `Messages that wait: ${always}.`, "gauge", (emit) => {
    emit(0, labels);
  });
  collectors.addHistogram(
    "velo_messenger_ordered_lane_wait_seconds",
    `Time that a message waits: ${always}.`,
    (emit) => {
      const entry = [...handlers.entries()].find(({ name }) => name === LANE_HANDLER);
      const count = entry?.stats.requests[0] ?? 0;
      emit(allInFirst(count), labels);
    },
  );
  collectors.add("velo_messenger_ordered_lanes_created_total", "Lanes so far.", "counter", (emit) => {
    emit(lanes.lanesCreated, labels);
  });
}

function allInFirst(count: number): HistogramCounts {
  const histogram = new Histogram(DURATION_BOUNDS);
  histogram.counts[0] = count;
  histogram.count = count;
  return histogram;
}

function addCallMetrics(collectors: Collectors, { handlers, outbox, stats }: Messenger): void {
  collectors.add(
    "velo_messenger_dispatch_failures_total",
    "Messages and answers that came to nothing.",
    "counter",
    (emit) => {
      for (const [own, [stage, reason]] of Object.entries(DISPATCH_FAILURES)) {
        emit(stats.dispatchFailures[own] ?? 0, { stage, reason });
      }
      let panics = 0;
      for (const entry of handlers.entries()) if (entry.oneWay !== null) panics += entry.stats.failures;
      emit(panics, { stage: "dispatch", reason: "ordered_handler_panic" });
    },
  );
  collectors.add(
    "velo_messenger_client_resolution_total",
    "How calls found their handler.",
    "counter",
    (emit) => {
      const { directCalls, handshakes } = stats;
      emit(directCalls, { path: "direct", outcome: "success" });
      emit(handshakes.attempts, { path: "handshake", outcome: "attempt" });
      emit(handshakes.successes, { path: "handshake", outcome: "success" });
      emit(handshakes.errors, { path: "handshake", outcome: "error" });
      emit(outbox.sendErrors, { path: "send", outcome: "error" });
    },
  );
  const { arena } = outbox.calls;
  collectors.add(
    "velo_messenger_pending_responses",
    "Calls that wait for an answer.",
    "gauge",
    () => arena.pending,
  );
  collectors.add(
    "velo_messenger_response_slot_exhausted_total",
    "Calls refused because every response slot was taken.",
    "counter",
    () => arena.exhausted,
  );
}

function addStagingMetrics(collectors: Collectors, { outbox: { staging } }: Messenger): void {
  const operations = Object.entries(staging.stats.operations).flatMap(([operation, stats]) =>
    OUTCOMES.map((outcome) => ({ histogram: stats[outcome], labels: { operation, outcome } }))
  );
  const counts = (emit: Emit): void => {
    for (const { histogram, labels } of operations) emit(histogram.count, labels);
  };
  const durations = (emit: EmitHistogram): void => {
    for (const { histogram, labels } of operations) emit(histogram, labels);
  };
  collectors.add(
    "velo_rendezvous_operations_total",
    "Payloads staged, fetched, given back.",
    "counter",
    counts,
  );
  collectors.addHistogram(
    "velo_rendezvous_operation_duration_seconds",
    "Time that an operation took; only a get takes any.",
    durations,
  );
  collectors.add("velo_rendezvous_bytes_total", "Bytes staged and fetched.", "counter", (emit) => {
    emit(staging.stats.registeredBytes, { operation: "register" });
    emit(staging.stats.fetchedBytes, { operation: "get" });
  });
  collectors.add("velo_rendezvous_active_slots", "Payloads staged now.", "gauge", () => staging.size);
}
