/**
 * The two ends of one response stream, as every plane offers them.
 *
 * A frontend *registers* a stream and gets an {@linkcode Anchor} (receiving end) and a {@linkcode Ticket}; the ticket
 * goes to a worker inside the request; the worker *opens* it and gets a {@linkcode Sender}. Nothing in this file knows
 * lanes, slots or sockets.
 */
import type { PeerInfo } from "./messenger/peer_info.ts";

/** A 128-bit handle as it travels in JSON: `hi` is the owner's worker id, `lo` its local id. */
export interface Handle {
  readonly hi: bigint;
  readonly lo: bigint;
}

/** What the frontend mints at registration. With it a worker may send at once (zero round trips). */
export interface Ticket {
  readonly handle: Handle;
  /** 0 when the worker has to attach first (`--stream-setup attach`). */
  readonly routingSessionId: bigint;
  /** Data records the worker may send before the first grant. */
  readonly initialCredit: number;
  /** Bytes one slot may hold; 0 means the default. */
  readonly slotByteBudget: number;
  readonly heartbeatIntervalMs: number;
  /** Lanes the frontend listens for; a peer without lanes uses lane 0. */
  readonly lanes: number;
  /** The frontend understands SlotHeartbeat records that cost no credit. */
  readonly freeBeats: boolean;
  readonly peer: PeerInfo;
}

/** How a stream ended, as the consumer sees it. */
export type StreamEnd =
  | { readonly kind: "finalized" } // the producer said so: the only clean end
  | { readonly kind: "dropped"; readonly reason: string } // the producer or its lane vanished
  | { readonly kind: "transport_error"; readonly message: string } // the producer gave up and says why
  | { readonly kind: "timeout"; readonly reason: string } // silence longer than the watchdog allows, or nobody came
  | { readonly kind: "protocol"; readonly reason: string }; // the producer broke the rules

/** Takes one stream's items. All calls are synchronous, from the isolate that registered the stream. */
export interface StreamConsumer {
  /**
   * One data item. `bytes[start, end)` is valid only during the call: copy or write it out. A consumer that can take
   * no more calls `anchor.pause()`, from inside this call if it likes: no further item comes until `resume()`.
   */
  onData(bytes: Uint8Array, start: number, end: number): void;
  /** One side note of the producer (head, summary), in order with the data. */
  onNote(text: string): void;
  /** The end: exactly once, after every item; never after `anchor.cancel()`. */
  onEnd(end: StreamEnd): void;
}

/** The receiving end of one stream. */
export interface Anchor {
  readonly ticket: Ticket;
  /** No items until `resume`. Idempotent. */
  pause(): void;
  /** Delivers what has waited, synchronously, then lets items through as they arrive. Idempotent. */
  resume(): void;
  /** The consumer is done: forgets the stream and tells the producer to stop. After the end it does nothing. */
  cancel(reason: string): void;
}

/** Why a sender can send no more. */
export type SenderEnd = "finished" | "stopped" | "peer_lost" | "overflow" | "rejected" | "closed";

/** The producing end of one stream. All calls are synchronous and never block. */
export interface Sender {
  /** True while a record would go out without waiting for credit or for the lane. */
  readonly writable: boolean;
  /** Null while the stream is open. */
  readonly ended: SenderEnd | null;
  /** Called when `writable` turns true again after a send returned false. */
  onWritable: (() => void) | null;
  /** Called once when the stream ended for another reason than this side's own terminal. */
  onEnded: ((why: SenderEnd) => void) | null;
  /**
   * Sends one data item, copied before the call returns. False: it waits for credit (or the stream has ended, see
   * `ended`), and the producer should hold back; what waits beyond the slot's byte budget kills the stream.
   */
  sendData(bytes: Uint8Array): boolean;
  /** Sends one side note; same rules. */
  sendNote(text: string): boolean;
  /** Ends the stream cleanly. Idempotent, as are the other two; the first end counts. */
  finalize(): void;
  /** Ends the stream with an error text that the consumer gets. */
  fail(message: string): void;
  /** Ends the stream as if the producer had vanished. */
  drop(): void;
}
