/** How one streamed response leaves the process. */
import type { ServerResponse } from "node:http";

/**
 * Takes the body of one response whose head has been set. The caller frames each chunk for HTTP/1.1 itself, so that a
 * sink which owns the connection's framing can send `buffer[frameStart, frameEnd)` and one that does not can send the
 * data inside it, `buffer[dataStart, dataEnd)`.
 */
export interface SseSink {
  /** Bytes that must be free in front of the first chunk's frame, for the head to leave with it. */
  readonly headRoom: number;
  /**
   * Sends one chunk; `Egress.keepsChunks` says for how long its bytes must not change. False: the client's socket is full
   * and the caller should hold back until `onWritable`. What is sent in spite of that is kept in memory.
   */
  write(
    buffer: Uint8Array<ArrayBuffer>,
    frameStart: number,
    dataStart: number,
    dataEnd: number,
    frameEnd: number,
  ): boolean;
  /** As `write` and `end`. Behind the frame five bytes must be free, for the end of the body to leave with it. */
  writeLast(
    buffer: Uint8Array<ArrayBuffer>,
    frameStart: number,
    dataStart: number,
    dataEnd: number,
    frameEnd: number,
  ): void;
  /** As `Flushable.prefetch`. */
  prefetch(): number;
  /** True from a write that returned false until `onWritable`. */
  readonly blocked: boolean;
  /** Ends the body, so that the connection can carry the next request. Nothing may follow. */
  end(): void;
  /** Lets go of the connection. Idempotent; called when the response is over, however it ended. */
  release(): void;
}

/** Told what a sink's client does. */
export interface SinkHost {
  /** A blocked sink can take bytes again. */
  onWritable(): void;
  /** A write that returned true has turned out to be too much: from now on the sink is blocked. */
  onBlocked(): void;
  /** A write that returned has thrown since: what the client has is not known. */
  writeFailed(caught: unknown): void;
}

/** One way out of the process; one per frontend. */
export interface Egress {
  readonly name: "ring" | "ffi" | "socket" | "portable";
  /** Whether written bytes may still be read after `endFlush` (outside a flush: after `write`): then they must not change. */
  readonly keepsChunks: boolean;
  /** Makes the sink of one response. */
  sink(response: ServerResponse, host: SinkHost): SseSink;
  /** Writes of many responses follow, up to `endFlush`. */
  beginFlush(): void;
  /** Every write since `beginFlush` has left, or waits in its own sink, when this returns. */
  endFlush(): void;
}
