/**
 * The receiving end of one stream. It reads its slot's buffer itself: an item that finds the consumer ready is handed
 * over as a view, in the call that decodes the batch; only what has to wait is copied.
 */
import type { InstanceId } from "../../transports/contract.ts";
import type { Anchor, StreamConsumer, StreamEnd, Ticket } from "../stream.ts";
import type { DeadlineEntry } from "./deadlines.ts";
import type { IngressSlot } from "./ingress_slot.ts";
import { decodeNote, WaitingItems } from "./waiting_items.ts";

/** What an anchor needs of its registry. */
export interface AnchorOwner {
  /** The anchor is over: no sender may claim it any more. Null: its consumer cancelled, and the producer has to be told. */
  retire(anchor: MuxAnchor, end: StreamEnd | null): void;
  /** Items were delivered outside a read. */
  delivered(): void;
  /** A consumer threw; its stream has been cancelled. */
  consumerFailed(anchor: MuxAnchor, error: unknown): void;
}

/** One anchor. */
export class MuxAnchor implements Anchor {
  readonly ticket: Ticket;
  readonly localId: number;
  /** What an OpenSlot has to name beside the local id. */
  readonly sessionId: bigint;
  /** Who may open it; null for anyone. */
  readonly producer: InstanceId | null;
  readonly consumer: StreamConsumer;
  readonly #owner: AnchorOwner;
  /** The slot that feeds it; written by the registry. */
  slot: IngressSlot | null = null;
  /** The accept window; written by the registry. */
  accept: DeadlineEntry<MuxAnchor> | null = null;
  /** An `_anchor_attach` has been granted; written by the registry. */
  attached = false;
  /** Where to send `_stream_cancel` when the sender attached; written by the registry. */
  cancelTo: { readonly peer: InstanceId; readonly senderStreamId: bigint } | null = null;
  #paused = false;
  #over = false;
  #waiting: WaitingItems | null = null;
  #pendingEnd: StreamEnd | null = null;
  #draining = false;
  /** Waiting items, the oldest, that came through a slot which has been given up: no slot's credit is theirs. */
  #orphans = 0;

  constructor(
    owner: AnchorOwner,
    ticket: Ticket,
    localId: number,
    sessionId: bigint,
    producer: InstanceId | null,
    consumer: StreamConsumer,
  ) {
    this.#owner = owner;
    this.ticket = ticket;
    this.localId = localId;
    this.sessionId = sessionId;
    this.producer = producer;
    this.consumer = consumer;
  }

  get over(): boolean {
    return this.#over;
  }

  /** Whether its end is known, though items may still wait before it. */
  get ending(): boolean {
    return this.#over || this.#pendingEnd !== null;
  }

  /** Its slot is gone and another may follow; what waits, waits on. */
  leaveSlot(): void {
    this.slot = null;
    this.#orphans = this.buffered;
  }

  /** Items that wait for the consumer. */
  get buffered(): number {
    return this.#waiting === null ? 0 : this.#waiting.length;
  }

  /** One data item, admitted and in order. Returns whether the consumer took it at once. */
  data(bytes: Uint8Array, start: number, end: number): boolean {
    if (this.#mustWait()) {
      (this.#waiting ??= new WaitingItems()).pushData(bytes, start, end);
      return false;
    }
    try {
      this.consumer.onData(bytes, start, end);
    } catch (error) {
      this.#failed(error);
    }
    return true;
  }

  /** One note, admitted and in order. Returns whether the consumer took it at once. */
  note(bytes: Uint8Array, start: number, end: number): boolean {
    if (this.#mustWait()) {
      (this.#waiting ??= new WaitingItems()).pushNote(bytes, start, end);
      return false;
    }
    try {
      this.consumer.onNote(decodeNote(bytes, start, end));
    } catch (error) {
      this.#failed(error);
    }
    return true;
  }

  /** The stream ends, behind whatever still waits. Only the first end counts. */
  end(end: StreamEnd): void {
    if (this.#over || this.#pendingEnd !== null) return;
    if (this.buffered > 0 || this.#draining) {
      this.#pendingEnd = end;
      return;
    }
    this.#finish(end);
  }

  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    if (this.#over) return;
    this.#paused = false;
    if (this.#draining || this.#waiting === null) return;
    if (this.#drain()) this.#owner.delivered();
  }

  cancel(_reason: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#discard();
    this.#owner.retire(this, null);
  }

  #mustWait(): boolean {
    return this.#paused || this.#draining || (this.#waiting !== null && this.#waiting.length > 0);
  }

  /** Hands over what waits until the consumer pauses. Returns whether anything was. */
  #drain(): boolean {
    const waiting = this.#waiting!;
    let any = false;
    let taken = 0;
    let takenBytes = 0;
    this.#draining = true;
    while (!this.#paused && !this.#over) {
      const before = waiting.bytes;
      const item = waiting.shift();
      if (item === undefined) break;
      any = true;
      if (this.#orphans > 0) {
        this.#orphans--;
      } else {
        taken++;
        takenBytes += before - waiting.bytes;
      }
      try {
        if (item instanceof Uint8Array) this.consumer.onData(item, 0, item.length);
        else this.consumer.onNote(item.text);
      } catch (error) {
        this.#failed(error);
      }
    }
    this.#draining = false;
    // A cancel from inside has given back what the slot held.
    if (taken > 0 && !this.#over) this.slot?.ingress.drained(this.slot, taken, takenBytes);
    if (waiting.length === 0 && this.#pendingEnd !== null && !this.#over) this.#finish(this.#pendingEnd);
    return any;
  }

  #finish(end: StreamEnd): void {
    this.#over = true;
    this.#discard();
    this.#owner.retire(this, end);
    try {
      this.consumer.onEnd(end);
    } catch (error) {
      this.#owner.consumerFailed(this, error);
    }
  }

  #failed(error: unknown): void {
    this.#owner.consumerFailed(this, error);
    this.cancel("the consumer failed");
  }

  #discard(): void {
    this.#waiting?.clear();
    this.#pendingEnd = null;
  }
}
