/**
 * The receiving end of one stream. An item that finds the consumer ready goes from `Ingress` to it directly, as a view, in
 * the call that decodes the batch; only what has to wait comes here, and is copied.
 */
import type { InstanceId } from "../../transports/contract.ts";
import type { Anchor, StreamConsumer, StreamEnd, Ticket } from "../stream.ts";
import type { DeadlineEntry } from "./deadlines.ts";
import type { IngressSlot } from "./ingress_slot.ts";
import { WaitingItems } from "./waiting_items.ts";
import type { ItemKind } from "./wire/item_frame.ts";

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
  /** The slot that feeds it; written by `enterSlot` and `leaveSlot`. */
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

  /** A slot feeds it from now on. */
  enterSlot(slot: IngressSlot): void {
    this.slot = slot;
    this.#steer();
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

  /** An item, admitted and in order, that has to wait: its slot has no receiver. */
  hold(kind: ItemKind, bytes: Uint8Array, start: number, end: number): void {
    const waiting = this.#waiting ??= new WaitingItems();
    if (kind === "data") waiting.pushData(bytes, start, end);
    else waiting.pushNote(bytes, start, end);
  }

  /** The consumer threw on an item: its stream is cancelled. */
  consumerFailed(error: unknown): void {
    this.#owner.consumerFailed(this, error);
    this.cancel("the consumer failed");
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
    this.#steer();
  }

  resume(): void {
    if (this.#over) return;
    this.#paused = false;
    const isDelivered = !this.#draining && this.#waiting !== null && this.#drain();
    this.#steer();
    if (isDelivered) this.#owner.delivered();
  }

  cancel(_reason: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#discard();
    this.#owner.retire(this, null);
  }

  /** Has the slot hand items over at once, or hold them while any would overtake one that waits. */
  #steer(): void {
    if (this.slot === null) return;
    const mustWait = this.#paused || this.#draining || this.buffered > 0;
    this.slot.receiver = mustWait ? null : this.consumer;
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
        this.consumerFailed(error);
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

  #discard(): void {
    this.#waiting?.clear();
    this.#pendingEnd = null;
  }
}
