/** A plane that keeps what senders got; a test says when they are full and when they end. */
import type { ResponsePlane } from "../../src/plane/types.ts";
import type { Anchor, Sender, SenderEnd, Ticket } from "../../src/stream.ts";

const decoder = new TextDecoder();

/** Records one stream; `room` is how many items it takes before it says false. */
export class RecordingSender implements Sender {
  readonly ticket: Ticket;
  ended: SenderEnd | null = null;
  onWritable: (() => void) | null = null;
  onEnded: ((why: SenderEnd) => void) | null = null;
  /** Items in order: data as text, notes as parsed JSON, the end as a word. */
  readonly items: unknown[] = [];
  room = Infinity;

  constructor(ticket: Ticket) {
    this.ticket = ticket;
  }

  get writable(): boolean {
    return this.ended === null && this.room > 0;
  }

  sendData(bytes: Uint8Array): boolean {
    return this.#push(decoder.decode(bytes));
  }

  sendNote(text: string): boolean {
    return this.#push(JSON.parse(text));
  }

  /** A full sender keeps its terminal until there is room, as a mux without credit does. */
  finalize(): void {
    this.#finish("finalized");
  }

  fail(message: string): void {
    this.#finish(`failed: ${message}`);
  }

  drop(): void {
    this.#finish("dropped");
  }

  /** The stream ends from outside. */
  end(why: SenderEnd): void {
    if (this.ended !== null) return;
    this.ended = why;
    this.onEnded?.(why);
  }

  /** Room again. */
  release(): void {
    this.room = Infinity;
    if (this.items.at(-1) === "finalized") this.ended ??= "finished";
    else this.onWritable?.();
  }

  #push(item: unknown): boolean {
    if (this.ended !== null) return false;
    this.items.push(item);
    return --this.room >= 0;
  }

  #finish(how: string): void {
    if (this.ended !== null) return;
    this.items.push(how);
    if (this.room > 0) this.ended = "finished";
  }
}

/** Opens {@linkcode RecordingSender}s. */
export class RecordingPlane implements ResponsePlane {
  readonly senders: RecordingSender[] = [];
  /** What a new sender has ended with already, null for an open one. */
  refuses: SenderEnd | null = null;
  isClosed = false;
  flushes = 0;

  register(): Anchor {
    throw new Error("Cannot register: a worker has no anchors");
  }

  open(ticket: Ticket): Sender {
    const sender = new RecordingSender(ticket);
    sender.ended = this.refuses;
    this.senders.push(sender);
    return sender;
  }

  flushBatch(): void {
    this.flushes++;
  }

  onDelivered(): void {}

  close(): void {
    this.isClosed = true;
    for (const sender of this.senders) sender.end("closed");
  }
}
