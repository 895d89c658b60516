/** What the messenger offers to the layers above it (mux, planes, modes). Implemented by `messenger.ts`. */
import type { Admission, InboundConnection, InstanceId } from "../../transports/contract.ts";
import type { PeerInfo } from "./peer_info.ts";

/** A peer this node knows. One object per instance id for as long as it is registered. */
export interface RemotePeer {
  readonly instanceId: InstanceId;
  /** xxh3-64 of the instance id's bytes. */
  readonly workerId: bigint;
  readonly info: PeerInfo;
}

/** Where a message came from. Valid as long as its connection. */
export interface MessageOrigin {
  /** The sender's worker id, from the response id. */
  readonly workerId: bigint;
  /** The sender when it is registered here, else null: nothing can be sent back to it. */
  readonly peer: RemotePeer | null;
  /** Identifies the inbound connection; the same value is given to `onConnectionClosed`. */
  readonly connection: number;
  /** The connection itself, for how far reading it has got; absent where nothing reads. */
  readonly source?: Pick<InboundConnection, "caughtUpAt">;
}

/**
 * Handles one message in arrival order. `payload` is valid only during the synchronous part of the call.
 * A returned promise (request handlers) delays the answer, not the messages behind it.
 */
export type OneWayHandler = (payload: Uint8Array, origin: MessageOrigin) => void;
/** Answers a unary request: JSON in, JSON out; a throw becomes an error reply with the error's `wire` or message. */
export type JsonHandler = (input: unknown, origin: MessageOrigin) => unknown | Promise<unknown>;
/** Answers an ack/nack or unary request with raw bytes in and (unary) out. */
export type BytesHandler = (
  payload: Uint8Array,
  origin: MessageOrigin,
) => Uint8Array | void | Promise<Uint8Array | void>;

/** Events that the layers above need to end what a lost connection carried. */
export interface MessengerEvents {
  /** An outbound lane is gone; anything admitted to it may be lost. */
  onLaneLost(peer: InstanceId, lane: number, reason: string): void;
  /** An inbound connection is gone (`MessageOrigin.connection`). */
  onConnectionClosed(connection: number, reason: string): void;
  /** A peer was unregistered: nothing can be sent to it any more, and what is kept about it can go. */
  onPeerUnregistered(peer: InstanceId): void;
  /** All frames of one read, or of several that share an end, have been handled. */
  onReadEnd(): void;
}

/** One node's messenger. */
export interface MessengerPort {
  readonly instanceId: InstanceId;
  readonly workerId: bigint;
  readonly peerInfo: PeerInfo;
  /** Lanes that the transport towards the peer can keep. */
  lanesTo(peer: InstanceId): number;

  /** Makes a peer known, or replaces its address. Throws `invalid_request` when no transport here takes its address. */
  registerPeer(info: PeerInfo): RemotePeer;
  unregisterPeer(peer: InstanceId): void;
  peer(peer: InstanceId): RemotePeer | undefined;
  peerByWorkerId(workerId: bigint): RemotePeer | undefined;

  /** Registers a handler; a second one of the same name throws. */
  handleOneWay(name: string, handler: OneWayHandler): void;
  handleJson(name: string, handler: JsonHandler): void;
  handleBytes(name: string, handler: BytesHandler): void;
  /** Adds a listener; there may be several. */
  listen(events: Partial<MessengerEvents>): void;

  /** Largest payload of a message to `handler` that is not staged, in bytes (wire: eager budget). */
  eagerBudget(peer: InstanceId, handler: string): number;
  /**
   * Fire and forget. Same contract as `Transport.send`: true when admitted and the parts may be reused. A payload
   * over the eager budget is staged: kept here, and not admitted, until the peer has pulled it.
   */
  sendOneWay(
    peer: InstanceId,
    lane: number,
    handler: string,
    parts: readonly Uint8Array[],
    admission?: Admission,
  ): boolean;
  /** Sends a JSON value one way. Failures are logged. */
  sendJson(peer: InstanceId, handler: string, value: unknown): void;
  /**
   * Unary call with JSON both ways. Rejects with `remote`, `handler_not_found`, `connection`, `unavailable` (the peer
   * drains), `timeout` or `peer_unknown`.
   */
  requestJson(peer: InstanceId, handler: string, value: unknown, timeoutMs: number): Promise<unknown>;
  /** Unary call with raw bytes both ways. Rejects as `requestJson` does. */
  requestBytes(
    peer: InstanceId,
    handler: string,
    payload: Uint8Array,
    timeoutMs: number,
  ): Promise<Uint8Array>;
  /** Ack/nack call with raw bytes; resolves on ack. Rejects as `requestJson` does. */
  requestAck(peer: InstanceId, handler: string, payload: Uint8Array, timeoutMs: number): Promise<void>;
  /**
   * Calls a node of which only the address is known (bootstrap): dials it, sends, and forgets it again.
   * `address` is `host:port`.
   */
  requestJsonAt(address: string, handler: string, value: unknown, timeoutMs: number): Promise<unknown>;

  /** Refuses new requests; stream data, credit, staging and control still flow. */
  beginDrain(): void;
  /** Waits for handlers in flight, writes out, closes. */
  shutdown(deadlineMs: number): Promise<void>;
}
