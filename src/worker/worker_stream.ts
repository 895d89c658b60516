/** One request on the worker: what its engine writes goes to its sender, and exactly one outcome is recorded. */
import type { Outcome, TokenUsage } from "../outcome.ts";
import { encodeHeadNote, encodeSummaryNote } from "../plane/notes.ts";
import type { Sender, SenderEnd } from "../stream.ts";
import type { EngineOutput, EngineSummary } from "./engines/engine.ts";

/** How one request ended. */
export interface StreamResult {
  readonly outcome: Outcome;
  readonly usage: TokenUsage | null;
  readonly detail: string;
}

/** What engines have given to be sent; shared by all streams of a worker. */
export interface SentCounts {
  records: number;
  bytes: number;
}

/** What an ended sender says of the response that it cut off. */
const CUT_OFF: Readonly<Record<SenderEnd, Outcome>> = Object.freeze({
  finished: "internal_error", // only our own terminal says so
  stopped: "cancelled",
  peer_lost: "dropped",
  rejected: "dropped",
  closed: "dropped",
  overflow: "internal_error", // the engine did not hold back when told to
});

/** Backs an engine's output by a sender. */
export class WorkerStream implements EngineOutput {
  readonly requestId: string;
  readonly #sender: Sender;
  readonly #counts: SentCounts;
  readonly #abort = new AbortController();
  readonly #onResult: (stream: WorkerStream, result: StreamResult) => void;
  #isOver = false;

  /** @param onResult called exactly once */
  constructor(
    requestId: string,
    sender: Sender,
    counts: SentCounts,
    onResult: (stream: WorkerStream, result: StreamResult) => void,
  ) {
    this.requestId = requestId;
    this.#sender = sender;
    this.#counts = counts;
    this.#onResult = onResult;
    // Comes from the plane whether or not data waits, so a full window never delays a stop.
    sender.onEnded = (why) => this.#cutOff(CUT_OFF[why], `The stream ended: ${why}`);
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get onWritable(): (() => void) | null {
    return this.#sender.onWritable;
  }

  set onWritable(callback: (() => void) | null) {
    this.#sender.onWritable = callback;
  }

  /** Everything has been handed to the lane, the end included, or nothing more ever will be. */
  get isSettled(): boolean {
    return this.#sender.ended !== null;
  }

  head(status: number, contentType: string): void {
    if (!this.#isOver) this.#sender.sendNote(encodeHeadNote({ status, contentType }));
  }

  data(bytes: Uint8Array): boolean {
    this.#counts.records++;
    this.#counts.bytes += bytes.length;
    return this.#sender.sendData(bytes);
  }

  end(summary: EngineSummary): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#sender.onWritable = null;
    this.#sender.sendNote(encodeSummaryNote(summary));
    this.#sender.finalize();
    this.#onResult(this, {
      outcome: summary.outcome,
      usage: summary.usage,
      detail: summary.detail ?? "",
    });
  }

  /** Ends the response from this side: the consumer learns why, the engine is stopped. */
  fail(outcome: EngineSummary["outcome"], why: string): void {
    if (this.#isOver) return;
    this.end({ outcome, usage: null, finishReasons: [], detail: why });
    this.#abort.abort();
  }

  #cutOff(outcome: Outcome, detail: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#sender.onWritable = null;
    this.#onResult(this, { outcome, usage: null, detail });
    this.#abort.abort();
  }
}
