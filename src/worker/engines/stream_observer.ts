/** Observes a streamed response: the tap finds events, the few that matter are read, and the end gets a verdict. */
import type { EngineSummary } from "./engine.ts";
import { isEventOfInterest } from "./event_interest.ts";
import { Observed } from "./observed.ts";
import { type SseSink, SseTap } from "./sse_tap.ts";

/** What a stream counts as that gave a finish reason but no `[DONE]`. */
export type MissingDone = "ok" | "truncated";

/** How the bytes ended: by themselves, or because the connection broke. */
export type BodyEnd = "clean" | "broken";

const DONE = new TextEncoder().encode("[DONE]");

/** Sees one streamed body go by. */
export class StreamObserver implements SseSink {
  readonly #tap: SseTap;
  readonly #observed = new Observed();
  readonly #missingDone: MissingDone;
  readonly #maxEventBytes: number;
  #done = false;

  constructor(maxEventBytes: number, missingDone: MissingDone) {
    this.#tap = new SseTap(this, maxEventBytes);
    this.#missingDone = missingDone;
    this.#maxEventBytes = maxEventBytes;
  }

  /** A line or event was over the limit; the stream cannot be judged any more. */
  get overflowed(): boolean {
    return this.#tap.overflowed;
  }

  /** `[DONE]` has come, its blank line perhaps not yet. */
  get isDone(): boolean {
    return this.#done || this.#tap.holds(DONE);
  }

  feed(bytes: Uint8Array): void {
    this.#tap.feed(bytes);
  }

  onEvent(bytes: Uint8Array, start: number, end: number): void {
    if (end - start === DONE.length && isDoneMarker(bytes, start)) this.#done = true;
    else if (isEventOfInterest(bytes, start, end)) this.#observed.read(bytes.subarray(start, end));
  }

  onErrorLine(): void {
    this.#observed.error ??= "an error event";
  }

  /**
   * The verdict: exactly one call, when no more bytes come. Success is never inferred from the absence of an error: a
   * stream is `ok` only when it said so itself.
   */
  summarise(end: BodyEnd): EngineSummary {
    const wasOpen = this.#tap.isOpen;
    this.#tap.finish();
    const observed = this.#observed;
    const verdict = this.#judge(end, wasOpen);
    const marks = observed.undecodable > 0 ? `; ${observed.undecodable} events could not be decoded` : "";
    const detail = verdict.detail + marks;
    return {
      outcome: verdict.outcome,
      usage: observed.usage,
      finishReasons: observed.finishReasons,
      ...(detail === "" ? {} : { detail }),
    };
  }

  #judge(end: BodyEnd, wasOpen: boolean): { outcome: EngineSummary["outcome"]; detail: string } {
    const { error } = this.#observed;
    if (this.#tap.overflowed) {
      return {
        outcome: "truncated",
        detail: `A line or event of the engine is longer than the limit of ${this.#maxEventBytes} bytes`,
      };
    }
    if (error !== null) {
      return { outcome: "upstream_error", detail: `The engine reported an error: ${error}` };
    }
    if (this.#done) {
      return { outcome: "ok", detail: wasOpen ? "The last event had no blank line behind it" : "" };
    }
    if (end === "broken") return { outcome: "truncated", detail: "The engine's connection broke" };
    if (wasOpen) return { outcome: "truncated", detail: "The engine's stream ended inside an event" };
    if (this.#observed.finishReasons.length > 0) {
      return { outcome: this.#missingDone, detail: "The engine's stream ended without [DONE]" };
    }
    return { outcome: "truncated", detail: "The engine's stream ended without a finish reason or [DONE]" };
  }
}

function isDoneMarker(bytes: Uint8Array, start: number): boolean {
  for (let i = 0; i < DONE.length; i++) if (bytes[start + i] !== DONE[i]) return false;
  return true;
}
