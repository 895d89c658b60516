/** A consumer that writes down what it got. */
import type { Anchor, StreamConsumer, StreamEnd } from "../../src/stream.ts";

const decoder = new TextDecoder();

/** Records items and ends; throws when anything follows the end. */
export class RecordingConsumer implements StreamConsumer {
  readonly items: string[] = [];
  readonly notes: string[] = [];
  readonly ends: StreamEnd[] = [];
  /** Pauses the anchor after this many more items; Infinity never does. */
  takes = Infinity;
  anchor: Anchor | null = null;

  onData(bytes: Uint8Array, start: number, end: number): void {
    this.#live();
    this.items.push(decoder.decode(bytes.subarray(start, end)));
    if (--this.takes <= 0) this.anchor?.pause();
  }

  onNote(text: string): void {
    this.#live();
    this.notes.push(text);
  }

  onEnd(end: StreamEnd): void {
    this.ends.push(end);
  }

  /** Lets `n` more items through. */
  take(n: number): void {
    this.takes = n;
    this.anchor?.resume();
  }

  #live(): void {
    if (this.ends.length > 0) throw new Error("Cannot take an item: the stream has ended");
  }
}
