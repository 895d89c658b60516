/**
 * The bounded queue in front of one socket, already in the shape the socket wants: a list of chunks.
 *
 * A frame is copied into the last chunk when it is admitted, so that whatever one burst sends leaves in one write.
 * Chunks hold up to 64 KiB or 1,024 frames; a larger frame is a chunk of its own.
 */
import type { MessageType } from "../contract.ts";
import { PREAMBLE_BYTES, writeFrame } from "./frame.ts";

/** A frame whose `header + payload` is over this is never staged beside others. Bytes. */
export const COALESCE_THRESHOLD = 65_536;
const MAX_CHUNK_FRAMES = 1_024;
const CHUNK_CAPACITY = COALESCE_THRESHOLD + PREAMBLE_BYTES;
/** Spare chunk buffers kept per queue: one being written, one being filled. */
const MAX_SPARE = 2;

/** Bounds of a {@linkcode SendQueue}; what has been taken for writing no longer counts. */
export interface SendQueueLimits {
  maxFrames: number;
  maxBytes: number;
}

/** What one write sends. */
export interface Chunk {
  readonly bytes: Uint8Array<ArrayBuffer>;
  length: number;
  frames: number;
  /** The same, by MessageType. */
  readonly framesByType: number[];
  /** When the first frame was put in, ms of the queue's clock. */
  readonly since: number;
}

/** See the head of this file. */
export class SendQueue {
  readonly #limits: SendQueueLimits;
  readonly #now: () => number;
  readonly #chunks: Chunk[] = [];
  readonly #spare: Uint8Array<ArrayBuffer>[] = [];
  #frames = 0;
  #bytes = 0;

  constructor(limits: SendQueueLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
  }

  get frames(): number {
    return this.#frames;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Copies a frame in; false when it has no room. An empty queue takes one frame of any size. */
  tryPush(
    type: MessageType,
    header: Uint8Array,
    parts: readonly Uint8Array[],
    payloadBytes: number,
  ): boolean {
    const frameBytes = PREAMBLE_BYTES + header.length + payloadBytes;
    if (this.#frames > 0) {
      if (this.#frames >= this.#limits.maxFrames || this.#bytes + frameBytes > this.#limits.maxBytes) {
        return false;
      }
    }
    const chunk = this.#chunkFor(frameBytes);
    chunk.length = writeFrame(chunk.bytes, chunk.length, type, header, parts, payloadBytes);
    chunk.frames++;
    chunk.framesByType[type]!++;
    this.#frames++;
    this.#bytes += frameBytes;
    return true;
  }

  /** Takes the oldest chunk out, for writing; null when there is nothing to write. */
  take(): Chunk | null {
    const chunk = this.#chunks.shift();
    if (chunk === undefined) return null;
    this.#frames -= chunk.frames;
    this.#bytes -= chunk.length;
    return chunk;
  }

  /** Gives a chunk's buffer back once it has been written. */
  recycle(chunk: Chunk): void {
    if (chunk.bytes.length === CHUNK_CAPACITY && this.#spare.length < MAX_SPARE) {
      this.#spare.push(chunk.bytes);
    }
  }

  #chunkFor(frameBytes: number): Chunk {
    const isLarge = frameBytes - PREAMBLE_BYTES > COALESCE_THRESHOLD;
    const last = this.#chunks.at(-1);
    if (!isLarge && last !== undefined && last.bytes.length === CHUNK_CAPACITY) {
      if (last.frames < MAX_CHUNK_FRAMES && last.length + frameBytes <= COALESCE_THRESHOLD) return last;
    }
    const bytes = isLarge ? new Uint8Array(frameBytes) : this.#spare.pop() ?? new Uint8Array(CHUNK_CAPACITY);
    const chunk: Chunk = { bytes, length: 0, frames: 0, framesByType: [0, 0, 0, 0, 0], since: this.#now() };
    this.#chunks.push(chunk);
    return chunk;
  }
}
