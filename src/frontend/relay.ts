/**
 * Carries one response from its anchor to its client: the frontend's end of the token's path.
 *
 * | phase | what has been seen | what has been sent |
 * |---|---|---|
 * | waiting | nothing | nothing |
 * | headed | the head of a stream | nothing |
 * | streaming | data | head and data, each item as it came |
 * | gathering | the head of a whole body, perhaps some of it | nothing |
 * | ending | the end of a stream | head and data but for the last chunk, until the end of the read |
 * | over | the end, or the client left | |
 *
 * Items of one read are gathered into one body chunk and written by one call, at the end of the read. Per item there is
 * a copy into the slab and nothing else.
 */
import type { ServerResponse } from "node:http";
import { copyBytes } from "../bytes.ts";
import { toTokenplaneError } from "../errors.ts";
import type { Outcome } from "../outcome.ts";
import { decodeNote, type HeadNote, type SummaryNote } from "../plane/notes.ts";
import type { Anchor, StreamConsumer, StreamEnd } from "../stream.ts";
import { frameChunk, MAX_SLAB_CHUNK_BYTES, ownChunk, PREFIX_BYTES } from "./egress/chunk_slab.ts";
import type { SinkHost, SseSink } from "./egress/sink.ts";
import { BLANK_LINE, type BreakReason, DONE_EVENT, errorEvent, KEEP_ALIVE } from "./error_body.ts";
import { EventTail } from "./event_tail.ts";
import type { Flushable } from "./flush_list.ts";
import { GatheredBody } from "./gathered_body.ts";
import { describeEnd, outcomeOf } from "./outcome_record.ts";
import type { RelayContext, RelayHost } from "./relay_host.ts";
import { sendBody } from "./respond.ts";
import { WORKER_HEADER } from "./worker_header.ts";

const Phase = Object.freeze({ waiting: 0, headed: 1, streaming: 2, gathering: 3, ending: 4, over: 5 });
type Phase = (typeof Phase)[keyof typeof Phase];

/** Up to this much is copied again to keep one read's items of a stream in one chunk when streams alternate. */
const MAX_MOVED_BYTES = 2_048;

/** One response. Reused for another try as long as no data has come. */
export class Relay implements StreamConsumer, Flushable, SinkHost {
  // What every item touches comes first, to lie together: it is cold each time, as in `IngressSlot`.
  readonly #context: RelayContext;
  #phase: Phase = Phase.waiting;
  // The chunk being gathered: data in #buffer[#start, #end). Null: none.
  #buffer: Uint8Array<ArrayBuffer> | null = null;
  #start = 0;
  #end = 0;
  #isTouched = false;
  /** What must be free in front of the first chunk; 0 once it has been written. */
  #headRoom = 0;
  #sink: SseSink | null = null;
  #tail: EventTail | null = null;
  #lastWriteMs = -1;
  #blockedSinceMs = -1;

  #keptAliveMs = -1;
  readonly #host: RelayHost;
  readonly #response: ServerResponse;
  readonly #requestId: string;
  #anchor: Anchor | null = null;
  #worker = "";
  #head: HeadNote | null = null;
  #summary: SummaryNote | null = null;
  #gathered: GatheredBody | null = null;
  #isSse = false;

  constructor(context: RelayContext, host: RelayHost, response: ServerResponse, requestId: string) {
    this.#context = context;
    this.#host = host;
    this.#response = response;
    this.#requestId = requestId;
  }

  /** Whether the response is over, for the client or for us. */
  get isOver(): boolean {
    return this.#phase === Phase.over;
  }

  /** Whether bytes are on their way to the client. */
  get isStreaming(): boolean {
    return this.#phase === Phase.streaming || this.#phase === Phase.ending;
  }

  /** Whether its end is known and leaves with the next flush. */
  get isEnding(): boolean {
    return this.#phase === Phase.ending;
  }

  /** When the client last got data, by the clock in ms; -1 before the first. */
  get lastWriteMs(): number {
    return this.#lastWriteMs;
  }

  /** When it last got data or was told that the stream lives; -1 before the first data. */
  get lastSignMs(): number {
    return Math.max(this.#lastWriteMs, this.#keptAliveMs);
  }

  /** Since when the client has taken nothing, by the clock in ms; -1 while it reads. */
  get blockedSinceMs(): number {
    return this.#blockedSinceMs;
  }

  /** Takes the anchor of a new try, and the name of the worker that is asked. */
  attach(anchor: Anchor, worker: string): void {
    this.#anchor = anchor;
    this.#worker = worker;
    this.#phase = Phase.waiting;
    this.#head = null;
    this.#summary = null;
  }

  /** Stops listening to the producer, and tells it to stop. The relay itself goes on. */
  detach(reason: string): void {
    this.#anchor?.cancel(reason);
    this.#anchor = null;
  }

  /** The client is gone, or has been answered by someone else: nothing more is written. */
  abandon(reason: string): void {
    this.#phase = Phase.over;
    this.#buffer = null;
    this.#gathered = null;
    this.detach(reason);
    this.#sink?.release();
  }

  /** Ends a stream that has begun, with an error event. */
  breakOff(reason: BreakReason): void {
    if (this.#phase !== Phase.streaming) return;
    this.detach(reason);
    this.#closeStream(reason);
  }

  /** Writes a comment when the client would see it between two events. */
  keepAlive(now: number): void {
    const isQuiet = this.#phase === Phase.streaming && this.#isSse && this.#buffer === null &&
      this.#blockedSinceMs < 0 && this.#tail!.isAtBoundary && !this.#tail!.isDone;
    if (!isQuiet) return;
    this.#keptAliveMs = now;
    this.#context.stats.keepAlives++;
    this.#writeNow(KEEP_ALIVE);
  }

  onData(bytes: Uint8Array, start: number, end: number): void {
    if (end <= start) return;
    this.#context.stats.recordsIn++;
    if (this.#phase !== Phase.streaming && !this.#isReadyFor(bytes, start, end)) return;
    const length = end - start;
    const { slab } = this.#context.flushList;
    if (this.#buffer !== null && slab.canGrow(this.#buffer, this.#end, length)) {
      copyBytes(this.#buffer, this.#end, bytes, start, end);
      this.#end += length;
      slab.cursor = this.#end;
    } else {
      this.#openChunk(bytes, start, end, length);
    }
    this.#touch();
    // Written in pieces, so that a full socket is noticed.
    if (this.#end - this.#start >= MAX_SLAB_CHUNK_BYTES) this.#writePending();
  }

  onNote(text: string): void {
    try {
      const note = decodeNote(text);
      if (note.kind === "summary") this.#summary = note.summary;
      else if (this.#phase === Phase.waiting) this.#takeHead(note.head);
    } catch (error) {
      this.#fail("internal_error", toTokenplaneError(error).message);
    }
  }

  onEnd(end: StreamEnd): void {
    this.#anchor = null;
    if (this.#phase === Phase.over) return;
    const outcome = outcomeOf(end, this.#summary);
    const isClean = end.kind === "finalized" && this.#summary !== null;
    if (this.#phase === Phase.streaming) return this.#endStream(outcome);
    if (isClean && this.#phase === Phase.gathering && this.#isWholeAnswer(outcome)) {
      return this.#sendGathered(outcome);
    }
    if (isClean && this.#phase === Phase.headed && outcome === "ok") {
      this.#openSink();
      return this.#endStream(outcome);
    }
    this.#host.onFailedEarly(outcome, describeEnd(end, this.#summary));
  }

  prefetch(): number {
    const tail = this.#tail === null ? 0 : this.#tail.prefetch();
    const sink = this.#sink === null ? 0 : this.#sink.prefetch();
    return tail ^ sink ^ (this.#lastWriteMs < 0 ? 1 : 0);
  }

  /** Writes what one read brought; called once per read. */
  flush(now: number): void {
    this.#isTouched = false;
    if (this.#phase === Phase.ending) this.#finish("ok");
    else if (this.#phase !== Phase.streaming) return;
    else if (this.#buffer !== null) this.#writePending();
    if (this.#lastWriteMs >= 0) this.#context.stats.gapSeconds.observe((now - this.#lastWriteMs) / 1000);
    this.#lastWriteMs = now;
  }

  /** A write threw: what the client has is not known, so its connection is cut. */
  writeFailed(caught: unknown): void {
    const isCounted = this.#phase === Phase.over;
    this.abandon("internal_error");
    this.#response.destroy();
    if (isCounted) return;
    const detail = toTokenplaneError(caught).message;
    const summary = { outcome: "internal_error", usage: null, finishReasons: [], detail } as const;
    this.#host.onComplete("internal_error", summary);
  }

  #touch(): void {
    if (!this.#isTouched) this.#context.flushList.touch(this);
    this.#isTouched = true;
  }

  #takeHead(head: HeadNote): void {
    this.#head = head;
    this.#isSse = head.contentType.toLowerCase().startsWith("text/event-stream");
    this.#phase = this.#isSse ? Phase.headed : Phase.gathering;
    if (this.#isSse) this.#tail = new EventTail();
    else this.#gathered = new GatheredBody(this.#context.maxGatherBytes);
  }

  /** The rare cases of `onData`; true when the item is to be streamed. */
  #isReadyFor(bytes: Uint8Array, start: number, end: number): boolean {
    switch (this.#phase) {
      case Phase.headed:
        this.#host.onFirstRecord();
        this.#openSink();
        return true;
      case Phase.gathering:
        if (this.#gathered!.length === 0) this.#host.onFirstRecord();
        if (this.#gathered!.push(bytes, start, end)) return false;
        this.#spill();
        return true;
      case Phase.waiting:
        this.#fail("internal_error", "Cannot relay data that came before its head");
        return false;
      default:
        return false;
    }
  }

  #openChunk(bytes: Uint8Array, start: number, end: number, length: number): void {
    const { slab } = this.#context.flushList;
    let moved = this.#buffer === null ? 0 : this.#end - this.#start;
    if (moved > MAX_MOVED_BYTES || moved + length > MAX_SLAB_CHUNK_BYTES) {
      if (moved > 0) this.#writePending();
      moved = 0;
    }
    const room = this.#headRoom;
    if (length > MAX_SLAB_CHUNK_BYTES) {
      this.#buffer = ownChunk(length, room);
      this.#start = room + PREFIX_BYTES;
      copyBytes(this.#buffer, this.#start, bytes, start, end);
    } else {
      this.#start = moved === 0
        ? slab.openWith(bytes, start, end, room)
        : slab.moveWith(this.#buffer!, this.#start, this.#end, bytes, start, end, room);
      this.#buffer = slab.buffer;
    }
    this.#end = this.#start + moved + length;
  }

  #writePending(isLast = false): void {
    const buffer = this.#buffer!;
    this.#buffer = null;
    this.#headRoom = 0;
    const { stats } = this.#context;
    const frame = frameChunk(buffer, this.#start, this.#end);
    stats.chunksOut++;
    stats.bytesOut += this.#end - this.#start;
    try {
      if (isLast) return this.#sink!.writeLast(buffer, frame, this.#start, this.#end, this.#end + 2);
      this.#tail?.push(buffer, this.#start, this.#end);
      if (!this.#sink!.write(buffer, frame, this.#start, this.#end, this.#end + 2)) this.onBlocked();
    } catch (caught) {
      this.writeFailed(caught);
    }
  }

  /** Writes what is no item, in memory of its own. No chunk may be open. */
  #writeNow(text: Uint8Array): void {
    if (this.isOver) return;
    this.#start = this.#headRoom + PREFIX_BYTES;
    this.#end = this.#start + text.length;
    this.#buffer = ownChunk(text.length, this.#headRoom);
    this.#buffer.set(text, this.#start);
    this.#writePending();
  }

  /** The client's socket is full: nothing is taken from the anchor until it is not. */
  onBlocked(): void {
    if (this.#blockedSinceMs >= 0) return;
    this.#blockedSinceMs = this.#context.flushList.clock.now();
    this.#context.stats.stalls++;
    this.#anchor?.pause();
  }

  onWritable(): void {
    this.#blockedSinceMs = -1;
    if (this.#phase !== Phase.streaming) return;
    this.#anchor?.resume();
    this.#context.flushList.flush();
  }

  #openSink(): void {
    const head = this.#head!;
    const response = this.#response;
    this.#phase = Phase.streaming;
    if (!response.destroyed) {
      const headers: Record<string, string> = {
        "content-type": head.contentType,
        "cache-control": "no-cache",
        "x-request-id": this.#requestId,
        [WORKER_HEADER]: this.#worker,
      };
      if (this.#isSse) headers["x-accel-buffering"] = "no";
      response.writeHead(head.status, headers);
    }
    this.#sink = this.#context.flushList.egress.sink(response, this);
    this.#headRoom = this.#sink.headRoom;
  }

  /** The gathered body is over its bound: from here on it is relayed as it comes. */
  #spill(): void {
    const gathered = this.#gathered!;
    this.#gathered = null;
    this.#openSink();
    if (gathered.length > 0) this.#writeNow(gathered.join());
  }

  #isWholeAnswer(outcome: Outcome): boolean {
    if (outcome === "ok") return true;
    // An engine's own refusal is passed on as it is; a failure behind a status of success is not.
    return outcome === "upstream_error" && this.#head!.status >= 400 && this.#gathered!.length > 0;
  }

  #sendGathered(outcome: Outcome): void {
    const { status, contentType } = this.#head!;
    const body = this.#gathered!.join();
    this.#phase = Phase.over;
    this.#gathered = null;
    sendBody(this.#response, status, contentType, body, this.#requestId, { [WORKER_HEADER]: this.#worker });
    this.#host.onComplete(outcome, this.#summary);
  }

  #endStream(outcome: Outcome): void {
    if (outcome !== "ok") return this.#closeStream(outcome as BreakReason);
    // The end leaves with the last chunk, and both with whatever else this read brought.
    this.#phase = Phase.ending;
    this.#touch();
  }

  #closeStream(reason: BreakReason): void {
    if (this.#buffer !== null) this.#writePending();
    if (this.isOver) return;
    const outcome: Outcome = reason === "shutting_down" ? "truncated" : reason;
    const tail = this.#tail;
    if (tail === null) {
      // A body of another type has no place for an error: only a cut connection says that it is not whole.
      this.#phase = Phase.over;
      this.#sink!.release();
      this.#response.destroy();
      return this.#host.onComplete(outcome, this.#summary);
    }
    // After [DONE] the client has its answer, and anything more would be an error to it.
    if (!tail.isDone) {
      if (!tail.isAtBoundary) this.#writeNow(BLANK_LINE);
      this.#writeNow(errorEvent(reason));
      this.#writeNow(DONE_EVENT);
    }
    this.#finish(outcome);
  }

  #finish(outcome: Outcome): void {
    if (this.#buffer !== null) this.#writePending(true);
    else if (!this.isOver) this.#sink!.end();
    // A write that failed has ended it already.
    if (this.isOver) return;
    this.#phase = Phase.over;
    this.#host.onComplete(outcome, this.#summary);
  }

  /** The producer broke the rules. */
  #fail(outcome: "internal_error", detail: string): void {
    if (this.#phase === Phase.over) return;
    this.detach("protocol");
    if (this.#phase === Phase.streaming) return this.#closeStream(outcome);
    this.#host.onFailedEarly(outcome, detail);
  }
}
