/** Items that a paused consumer has not taken: copies, so that no slow stream keeps a read buffer alive. */
import { decodeItemText } from "./wire/item_frame.ts";

const COMPACT_AT = 32;

/** A note that waits, and the bytes it was sent in. */
export interface WaitingNote {
  readonly text: string;
  readonly bytes: number;
}

/** FIFO of copied items. Bounded by the slot's window, not here. */
export class WaitingItems {
  #items: (Uint8Array | WaitingNote)[] = [];
  #head = 0;
  /** Payload bytes that wait. */
  bytes = 0;

  /** Entries kept, those of taken items included. */
  get stored(): number {
    return this.#items.length;
  }

  get length(): number {
    return this.#items.length - this.#head;
  }

  pushData(bytes: Uint8Array, start: number, end: number): void {
    this.#items.push(bytes.slice(start, end));
    this.bytes += end - start;
  }

  /** A note is decoded when it is put here: it is short, and its consumer wants text. */
  pushNote(bytes: Uint8Array, start: number, end: number): void {
    this.#items.push({ text: decodeItemText(bytes, start, end), bytes: end - start });
    this.bytes += end - start;
  }

  /** Takes the head; undefined when nothing waits. */
  shift(): Uint8Array | WaitingNote | undefined {
    const item = this.#items[this.#head];
    if (item === undefined) return undefined;
    this.bytes -= item instanceof Uint8Array ? item.length : item.bytes;
    // What is taken must not stay: a stream that is always one item behind would keep every item it ever had.
    if (++this.#head === this.#items.length) {
      this.#items.length = 0;
      this.#head = 0;
    } else if (this.#head >= COMPACT_AT && this.#head * 2 >= this.#items.length) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    return item;
  }

  clear(): void {
    this.#items.length = 0;
    this.#head = 0;
    this.bytes = 0;
  }
}
