/**
 * The side notes of one response: a head in front of the first data item, a summary behind the last.
 *
 * They travel as small JSON texts in order with the data (`Sender.sendNote`, `StreamConsumer.onNote`):
 *
 * | note | JSON |
 * |---|---|
 * | head | `{"v":1,"status":200,"content_type":"text/event-stream"}` |
 * | summary | `{"outcome":"ok","usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}\|null,"finish_reasons":["stop"],"detail":"…"}` |
 *
 * `detail` is for logs and may be absent. Unknown fields are ignored.
 */
import { TokenplaneError } from "../errors.ts";
import { OUTCOMES, type ProducerOutcome, type TokenUsage } from "../outcome.ts";

/** What the producer's response starts with. */
export interface HeadNote {
  /** HTTP status, 200 to 599. */
  readonly status: number;
  readonly contentType: string;
}

/** What the producer saw go by; never written into the response. */
export interface SummaryNote {
  readonly outcome: ProducerOutcome;
  readonly usage: TokenUsage | null;
  readonly finishReasons: readonly string[];
  /** Why, when the outcome is not `ok`. For logs. */
  readonly detail?: string;
}

/** A decoded note. */
export type Note =
  | { readonly kind: "head"; readonly head: HeadNote }
  | { readonly kind: "summary"; readonly summary: SummaryNote };

const PRODUCER_OUTCOMES: readonly string[] = OUTCOMES.filter((outcome) =>
  outcome !== "cancelled" && outcome !== "dropped"
);
// Room for every finish reason and the detail in JSON escapes.
const MAX_NOTE_CHARS = 65_536;
const MAX_CONTENT_TYPE_CHARS = 256;
const MAX_FINISH_REASONS = 128;
const MAX_FINISH_REASON_CHARS = 64;
const MAX_DETAIL_CHARS = 1_024;
const CONTENT_TYPE = /^[\x20-\x7e]+$/;

/** Encodes a head for `Sender.sendNote`. */
export function encodeHeadNote(head: HeadNote): string {
  return JSON.stringify({ v: 1, status: head.status, content_type: head.contentType });
}

/** Encodes a summary for `Sender.sendNote`; over-long parts are cut to what {@linkcode decodeNote} takes. */
export function encodeSummaryNote(summary: SummaryNote): string {
  const { usage } = summary;
  return JSON.stringify({
    outcome: summary.outcome,
    usage: usage === null ? null : {
      prompt_tokens: usage.promptTokens,
      completion_tokens: usage.completionTokens,
      total_tokens: usage.totalTokens,
    },
    finish_reasons: summary.finishReasons
      .slice(0, MAX_FINISH_REASONS)
      .map((reason) => reason.slice(0, MAX_FINISH_REASON_CHARS)),
    detail: summary.detail?.slice(0, MAX_DETAIL_CHARS),
  });
}

/** The last head that was decoded: nearly every stream has the same. */
let lastHead: { readonly text: string; readonly note: Note } | null = null;

/** Decodes and checks a note from a worker. Throws `protocol`. */
export function decodeNote(text: string): Note {
  if (lastHead !== null && lastHead.text === text) return lastHead.note;
  if (text.length > MAX_NOTE_CHARS) {
    throw refuse(`${text.length} characters are more than the limit of ${MAX_NOTE_CHARS}`);
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw refuse("it is not JSON");
  }
  if (typeof value !== "object" || value === null) throw refuse("it is not an object");
  const fields = value as Record<string, unknown>;
  if (!Object.hasOwn(fields, "status")) return { kind: "summary", summary: decodeSummary(fields) };
  const note: Note = { kind: "head", head: decodeHead(fields) };
  lastHead = { text, note };
  return note;
}

function decodeHead(fields: Record<string, unknown>): HeadNote {
  const { v, status, content_type: contentType } = fields;
  if (v !== 1) throw refuse('"v" must be 1');
  if (typeof status !== "number" || !Number.isInteger(status) || status < 200 || status > 599) {
    throw refuse('"status" must be 200 to 599');
  }
  const isText = typeof contentType === "string" && contentType.length <= MAX_CONTENT_TYPE_CHARS &&
    CONTENT_TYPE.test(contentType);
  if (!isText) throw refuse('"content_type" must be printable text');
  return { status, contentType };
}

function decodeSummary(fields: Record<string, unknown>): SummaryNote {
  const { outcome, usage, finish_reasons: reasons, detail } = fields;
  if (typeof outcome !== "string" || !PRODUCER_OUTCOMES.includes(outcome)) {
    throw refuse(`"outcome" must be one of ${PRODUCER_OUTCOMES.join(", ")}`);
  }
  const areReasons = Array.isArray(reasons) && reasons.length <= MAX_FINISH_REASONS &&
    reasons.every((reason) => typeof reason === "string" && reason.length <= MAX_FINISH_REASON_CHARS);
  if (!areReasons) throw refuse('"finish_reasons" must be a short list of short texts');
  const summary = {
    outcome: outcome as ProducerOutcome,
    usage: usage === null || usage === undefined ? null : decodeUsage(usage),
    finishReasons: reasons as string[],
  };
  return typeof detail === "string" ? { ...summary, detail: detail.slice(0, MAX_DETAIL_CHARS) } : summary;
}

function decodeUsage(usage: unknown): TokenUsage {
  if (typeof usage !== "object") throw refuse('"usage" must be an object or null');
  const fields = usage as Record<string, unknown>;
  return {
    promptTokens: count(fields, "prompt_tokens"),
    completionTokens: count(fields, "completion_tokens"),
    totalTokens: count(fields, "total_tokens"),
  };
}

function count(fields: Record<string, unknown>, name: string): number {
  const value = fields[name];
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw refuse(`"${name}" must be a count`);
  }
  return value;
}

function refuse(why: string): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot decode a note: ${why}`);
}
