/** Cuts what a socket delivers into frames, in place, in one buffer. Pure: no socket. */
import { MAX_FRAME_BYTES, type MessageType } from "../contract.ts";
import { checkPreamble, headerBytesAt, PREAMBLE_BYTES, typeAt } from "./frame.ts";

const LARGEST_BUFFER = MAX_FRAME_BYTES + PREAMBLE_BYTES;
const NEVER_SHRINK_BELOW = 524_288;

/** Sizes of a {@linkcode FrameReader}, in bytes. */
export interface FrameReaderOptions {
  /** Size at the start and after shrinking. */
  initialBytes?: number;
  /** A buffer that one large frame made larger than this is given up once it is empty. */
  shrinkAboveBytes?: number;
}

/** Takes a frame; both views are valid in the call only. Returning false stops the reader for good. */
export type FrameHandler = (type: MessageType, header: Uint8Array, payload: Uint8Array) => boolean;

/** Reads: `read into space()`, then `take(count, handler)`, again and again. */
export class FrameReader {
  readonly #initialBytes: number;
  readonly #shrinkAboveBytes: number;
  #buffer: Uint8Array<ArrayBuffer>;
  /** Unread bytes are `#buffer[#start, #end)`. */
  #start = 0;
  #end = 0;
  #lastFrameBytes = 0;

  constructor(options: FrameReaderOptions = {}) {
    this.#initialBytes = options.initialBytes ?? 262_144;
    this.#shrinkAboveBytes = Math.max(options.shrinkAboveBytes ?? 8_388_608, NEVER_SHRINK_BELOW);
    this.#buffer = new Uint8Array(this.#initialBytes);
  }

  /** Bytes of the frame that has begun and is not complete. */
  get pendingBytes(): number {
    return this.#end - this.#start;
  }

  /** Bytes held, whether used or not. */
  get capacity(): number {
    return this.#buffer.length;
  }

  /** Where the next bytes go; never empty. The view is good until the next call of `space` or `take`. */
  space(): Uint8Array<ArrayBuffer> {
    const capacity = this.#buffer.length;
    // Moving the start of a frame to the front is cheaper than reading in small pieces at the end.
    if (this.#start > 0 && capacity - this.#end < capacity / 4) this.#moveToFront();
    if (this.#end === this.#buffer.length) this.#grow();
    return this.#buffer.subarray(this.#end);
  }

  /**
   * Says that `count` bytes were put into `space()`, and hands out every frame that is complete. Returns false when
   * the handler stopped it. Throws `protocol` or `too_large` on a bad preamble, after the frames before it.
   */
  take(count: number, handler: FrameHandler): boolean {
    this.#end += count;
    const buffer = this.#buffer;
    while (this.#end - this.#start >= PREAMBLE_BYTES) {
      const at = this.#start;
      const total = checkPreamble(buffer, at);
      const next = at + PREAMBLE_BYTES + total;
      if (next > this.#end) break;
      const headerEnd = at + PREAMBLE_BYTES + headerBytesAt(buffer, at);
      this.#start = next;
      this.#lastFrameBytes = PREAMBLE_BYTES + total;
      const header = buffer.subarray(at + PREAMBLE_BYTES, headerEnd);
      if (!handler(typeAt(buffer, at), header, buffer.subarray(headerEnd, next))) return false;
    }
    if (this.#start === this.#end) this.#rest();
    return true;
  }

  #rest(): void {
    this.#start = 0;
    this.#end = 0;
    const capacity = this.#buffer.length;
    if (capacity > this.#shrinkAboveBytes && this.#lastFrameBytes <= capacity / 2) {
      this.#buffer = new Uint8Array(this.#initialBytes);
    }
  }

  #moveToFront(): void {
    this.#buffer.copyWithin(0, this.#start, this.#end);
    this.#end -= this.#start;
    this.#start = 0;
  }

  /** Doubles: a peer that declares a large frame has to send half of it before the whole is allocated. */
  #grow(): void {
    const larger = new Uint8Array(Math.min(2 * this.#buffer.length, LARGEST_BUFFER));
    larger.set(this.#buffer.subarray(this.#start, this.#end));
    this.#buffer = larger;
    this.#end -= this.#start;
    this.#start = 0;
  }
}
