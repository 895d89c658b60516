/**
 * What a transport is: it carries whole frames to peers, over one or more *lanes* (ordered connections) each.
 *
 * A transport knows sockets and nothing of what a frame says. Sockets are one-way: a node dials to send and listens to
 * receive (wire: topology rule). Every transport passes `tests/contract/transport_suite.ts`.
 */
import type { TokenplaneError } from "../src/errors.ts";

/** Message types of the frame preamble. */
export const MessageType = Object.freeze({ message: 0, response: 1, ack: 2, event: 3, shuttingDown: 4 });
/** One of {@linkcode MessageType}. */
export type MessageType = (typeof MessageType)[keyof typeof MessageType];

/** Largest `header + payload` of one frame, in bytes (inclusive). */
export const MAX_FRAME_BYTES = 16_777_216;

/** Identifies a peer node: its instance id, a UUID in lower-case hyphenated form. */
export type InstanceId = string;

/** An inbound connection, as far as the layers above may know it. One object for the life of the connection. */
export interface InboundConnection {
  /** Unique within the transport. */
  readonly id: number;
  /** For logs only, e.g. `127.0.0.1:4711`. */
  readonly remote: string;
  /** A place for the messenger to keep what it knows of this connection (which peer sends on it). */
  attachment: unknown;
  /**
   * When everything that had come in on it had last been delivered, by the transport's clock, ms: now for one that waits
   * to be read. A receiver that is behind with reading cannot say that somebody was silent. Absent: always now.
   */
  caughtUpAt?(): number;
  /** Closes it, e.g. after a protocol error. */
  close(reason: string): void;
}

/** Where a transport delivers. Calls are synchronous and must not throw. */
export interface FrameSink {
  /** One frame, in order of arrival on its connection. Both views are valid only during the call. */
  onFrame(from: InboundConnection, type: MessageType, header: Uint8Array, payload: Uint8Array): void;
  /** Every frame that a read, or several at once, brought has been delivered: the place to flush what was gathered. */
  onReadEnd(): void;
  /** An inbound connection is gone; nothing more arrives from it. Called once per connection. */
  onInboundClosed(from: InboundConnection, reason: string): void;
  /**
   * An outbound lane is gone: any frame admitted to it may be lost. Called once per connection, after every pending
   * admission of that lane has failed and before a successor may carry anything.
   */
  onLaneLost(peer: InstanceId, lane: number, reason: string): void;
  /** The peer refused a frame of ours because it is draining; `header` is the refused frame's, valid in the call. */
  onShuttingDown(peer: InstanceId, header: Uint8Array): void;
}

/** Called exactly once, later than the `send` that returned false: null when admitted, else why it never will be. */
export type Admission = (error: TokenplaneError | null) => void;

/** One way of carrying frames. */
export interface Transport {
  /** Key of its entry in a WorkerAddress: `tcp`, `ucx`, `memory`. */
  readonly key: string;
  /** How many lanes it can keep per peer; `lane` arguments are below this. */
  readonly lanes: number;
  /** Starts to listen. Throws `invalid_config` when the address cannot be had. */
  start(sink: FrameSink): Promise<void>;
  /** This node's entry in its WorkerAddress (the entry's own bytes). Only after `start`. */
  addressEntry(): Uint8Array;
  /** Tells where a peer is; a second call with another address replaces the first and retires its connections. */
  register(peer: InstanceId, entry: Uint8Array): void;
  /** Forgets a peer and closes its lanes; pending admissions fail with `connection`. Unknown peers are ignored. */
  unregister(peer: InstanceId): void;
  /** Largest `header + payload` the peer takes, in bytes. */
  maxFrameBytes(peer: InstanceId): number;
  /**
   * Sends one frame on one lane; dials when the lane is not up. `parts` are the payload, to be joined in order.
   *
   * Returns true when the frame has been admitted: it is ordered behind all earlier ones of this lane, and its bytes
   * have been copied, so the caller may reuse `header` and `parts` at once. Returns false when admission has to wait
   * (or failed before the wire: unknown peer, over size, closed): then the caller leaves header and parts alone until
   * `admission` is called. Frames are admitted in the order of their `send` calls. Without `admission` a frame that
   * cannot be admitted at once still waits its turn, and the transport tells nobody if it fails.
   */
  send(
    peer: InstanceId,
    lane: number,
    type: MessageType,
    header: Uint8Array,
    parts: readonly Uint8Array[],
    admission?: Admission,
  ): boolean;
  /** From now on refuses inbound frames of type `message` for which `exempt(header)` is false, and tells the sender. */
  beginDrain(exempt: (header: Uint8Array) => boolean): void;
  /** Writes out what is admitted, for at most `deadlineMs`, then closes every socket. Idempotent. */
  shutdown(deadlineMs: number): Promise<void>;
  /** Whether the peer can be reached right now. Rejects with `peer_unknown`, `connection` or `timeout`. */
  checkHealth(peer: InstanceId, timeoutMs: number): Promise<void>;
}

/** Counts that every transport keeps; plain numbers, read at scrape. Labels as in the metrics table of the wire. */
export interface TransportStats {
  framesIn: number[]; // by MessageType
  framesOut: number[]; // counted when admitted
  bytesIn: number[]; // header + payload, by MessageType
  bytesOut: number[];
  rejections: Record<string, number>; // by reason
  backpressure: number; // sends whose admission had to wait
  peers: number;
  connections: number;
}
