/**
 * Inbound messages, in order.
 *
 * A lane is an inbound connection: its messages are handled one after the other, in order of arrival, in the very
 * call that brings them. A handler that needs time returns a promise, which delays its own answer and nothing behind
 * it; one that throws costs its own message and nothing else. Who sends on a connection is looked up once, not per
 * message; a connection on which the sender changes is closed.
 */
import type { InboundConnection } from "../../transports/contract.ts";
import { TokenplaneError } from "../errors.ts";
import {
  decodeRequestHeader,
  readU16,
  REQUEST_FIXED_BYTES,
  REQUEST_ID_AT,
  type RequestHeader,
} from "./envelope.ts";
import type { HandlerEntry, HandlerTable } from "./handlers.ts";
import type { PeerRecord, PeerTable } from "./peers.ts";
import { readWorkerId, workerIdBytes } from "./response_ids.ts";
import type { MessageOrigin } from "./types.ts";

/** What the messenger knows of one inbound connection. */
export interface LaneState {
  /** `MessageOrigin.connection`. */
  readonly id: number;
  readonly sender: Uint8Array;
  origin: MessageOrigin;
  /** The record counted in `PeerRecord.inbound`. */
  peer: PeerRecord | null;
  /** Version of the peer table that `origin` was made with. */
  version: number;
}

/** What {@linkcode OrderedLanes} tells its owner. */
export interface LaneEvents {
  /** A request, or anything else that needs more than calling a one-way handler. Views are valid in the call only. */
  onRequest(request: RequestHeader, header: Uint8Array, payload: Uint8Array, lane: LaneState): void;
  /** A one-way handler threw. */
  onHandlerFailed(entry: HandlerEntry, caught: unknown): void;
  /** A message was dropped. `reason` is of a closed set. */
  onDropped(reason: string, caught?: unknown): void;
}

/** See the head of this file. */
export class OrderedLanes {
  readonly #handlers: HandlerTable;
  readonly #peers: PeerTable;
  readonly #events: LaneEvents;
  #nextId = 1;
  /** Connections on which somebody has sent a message. */
  lanes = 0;
  lanesCreated = 0;

  constructor(handlers: HandlerTable, peers: PeerTable, events: LaneEvents) {
    this.#handlers = handlers;
    this.#peers = peers;
    this.#events = events;
  }

  /** One message. Never throws. */
  handle(from: InboundConnection, header: Uint8Array, payload: Uint8Array): void {
    if (header.length < REQUEST_FIXED_BYTES) return this.#events.onDropped("active_message");
    const lane = this.#laneOf(from, header);
    if (lane === null) return;
    const nameBytes = readU16(header, 18);
    // Stream data: fire and forget, no headers, to a one-way handler. Nothing is allocated on this way.
    if (
      header[0] === 1 && header[1] === 0 && header.length === REQUEST_FIXED_BYTES + nameBytes &&
      header[20 + nameBytes] === 0 && header[21 + nameBytes] === 0
    ) {
      const entry = this.#handlers.findOneWay(header, 20, nameBytes);
      if (entry !== null) return this.call(entry, payload, lane.origin);
    }
    let request: RequestHeader;
    try {
      request = decodeRequestHeader(header);
    } catch (caught) {
      return this.#events.onDropped("active_message", caught);
    }
    this.#events.onRequest(request, header, payload, lane);
  }

  /** Calls a one-way handler. Never throws. */
  call(entry: HandlerEntry, payload: Uint8Array, origin: MessageOrigin): void {
    entry.stats.requests[0]!++;
    entry.stats.requestBytes += payload.length;
    try {
      entry.oneWay!(payload, origin);
    } catch (caught) {
      entry.stats.failures++;
      this.#events.onHandlerFailed(entry, caught);
    }
  }

  /** The connection is gone. Null when nobody had sent a message on it. */
  forget(from: InboundConnection): LaneState | null {
    const lane = from.attachment as LaneState | undefined;
    from.attachment = undefined;
    if (lane === undefined) return null;
    this.lanes--;
    if (lane.peer !== null) lane.peer.inbound--;
    return lane;
  }

  #laneOf(from: InboundConnection, header: Uint8Array): LaneState | null {
    const known = from.attachment as LaneState | undefined;
    if (known === undefined) {
      const lane = this.#open(readWorkerId(header, REQUEST_ID_AT), from);
      from.attachment = lane;
      return lane;
    }
    for (let i = 0; i < 8; i++) {
      if (header[REQUEST_ID_AT + i] === known.sender[i]) continue;
      this.#events.onDropped(
        "sender_changed",
        new TokenplaneError("protocol", "Cannot take message: sender changed"),
      );
      from.close("the sender of this connection changed");
      return null;
    }
    if (known.version !== this.#peers.version) this.#refresh(known);
    return known;
  }

  #open(workerId: bigint, source: InboundConnection): LaneState {
    this.lanes++;
    this.lanesCreated++;
    const id = this.#nextId++;
    const lane: LaneState = {
      id,
      sender: workerIdBytes(workerId),
      origin: { workerId, peer: null, connection: id, source },
      peer: null,
      version: -1,
    };
    this.#refresh(lane);
    return lane;
  }

  #refresh(lane: LaneState): void {
    lane.version = this.#peers.version;
    const peer = this.#peers.byWorkerId(lane.origin.workerId) ?? null;
    if (peer === lane.peer) return;
    if (lane.peer !== null) lane.peer.inbound--;
    if (peer !== null) peer.inbound++;
    lane.peer = peer;
    lane.origin = { ...lane.origin, peer };
  }
}
