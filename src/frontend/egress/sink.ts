/** How one streamed response leaves the process. */
import type { ServerResponse } from "node:http";

/**
 * Takes the body of one response whose head has been set. The caller frames each chunk for HTTP/1.1 itself, so that a
 * sink which owns the connection's framing can send `buffer[frameStart, frameEnd)` and one that does not can send the
 * data inside it, `buffer[dataStart, dataEnd)`.
 */
export interface SseSink {
  /**
   * Sends one chunk; the bytes must not change afterwards. False: the client's socket is full and the caller should
   * hold back until `onWritable`. What is sent in spite of that is kept in memory.
   */
  write(
    buffer: Uint8Array<ArrayBuffer>,
    frameStart: number,
    dataStart: number,
    dataEnd: number,
    frameEnd: number,
  ): boolean;
  /** True from a write that returned false until `onWritable`. */
  readonly blocked: boolean;
  /** Ends the body, so that the connection can carry the next request. Nothing may follow. */
  end(): void;
  /** Lets go of the connection. Idempotent; called when the response is over, however it ended. */
  release(): void;
}

/** Makes a sink. `onWritable` is called each time that a blocked sink can take bytes again. */
export type SinkFactory = (response: ServerResponse, onWritable: () => void) => SseSink;
