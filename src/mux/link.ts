/** What the mux needs from below: a way to send batches, and two small control messages. */
import type { Admission, InstanceId } from "../../transports/contract.ts";
import type { Handle } from "../stream.ts";

/** Carries batches to peers. The contract of `sendBatch` is that of `Transport.send`. */
export interface MuxLink {
  sendBatch(peer: InstanceId, lane: number, parts: readonly Uint8Array[], admission: Admission): boolean;
  /** Lanes that can be kept to the peer. */
  lanesTo(peer: InstanceId): number;
  /** Largest batch that is not staged, in bytes. */
  eagerBudget(peer: InstanceId): number;
  /** Tells a producer that nobody wants the stream of this handle any more. */
  sendStop(peer: InstanceId, handle: Handle, routingSessionId: bigint): void;
  /** The same for a sender that attached, by its own stream id. */
  sendCancel(peer: InstanceId, senderStreamId: bigint): void;
  /** Asks a consumer's node for the window of a stream (`--stream-setup attach`). */
  attach(peer: InstanceId, handle: Handle, sessionId: bigint): Promise<AttachGrant>;
}

/** What an attach is answered with. */
export interface AttachGrant {
  readonly routingSessionId: bigint;
  readonly initialCredit: number;
  readonly slotByteBudget: number;
}
