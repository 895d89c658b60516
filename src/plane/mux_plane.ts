/**
 * The mux plane: a mux on top of a messenger. It names the handlers, speaks the JSON of the streaming control plane
 * (wire: section 3), and passes batches through untouched.
 */
import { type Clock, systemClock } from "../clock.ts";
import { toTokenplaneError } from "../errors.ts";
import { parseJson } from "../messenger/json.ts";
import type { MessageOrigin, MessengerPort } from "../messenger/types.ts";
import type { AttachGrant, MuxLink } from "../mux/link.ts";
import { Mux, type MuxEvents } from "../mux/mux.ts";
import type { MuxOptions } from "../mux/options.ts";
import type { MuxStats } from "../mux/stats.ts";
import type { Anchor, Handle, Sender, StreamConsumer, Ticket } from "../stream.ts";
import type { InstanceId } from "../../transports/contract.ts";
import {
  type AttachRequest,
  MUX_TRANSPORT_KEY,
  readAttachRequest,
  readAttachResponse,
  readHandle,
  readSenderStreamId,
  readStop,
  writeAttachRequest,
  writeAttachResponse,
  writeCancel,
  writeStop,
} from "./stream_control.ts";
import type { ResponsePlane } from "./types.ts";

/** The handler that takes batches. */
export const BATCH_HANDLER = "_stream_batch";
/** How long an attach may take, in milliseconds. */
const ATTACH_TIMEOUT_MS = 30_000;
/** Bounds for control messages of this file; the largest, an attach, is under 1 KiB. */
const CONTROL_BOUNDS = { maxBytes: 65_536, maxDepth: 8 };

/** Streams over a messenger. */
export class MuxPlane implements ResponsePlane {
  readonly mux: Mux;
  readonly #messenger: MessengerPort;

  constructor(
    messenger: MessengerPort,
    options: Partial<MuxOptions> = {},
    clock: Clock = systemClock,
    events?: MuxEvents,
  ) {
    this.#messenger = messenger;
    const link: MuxLink = {
      sendBatch: (peer, lane, parts, admission) =>
        messenger.sendOneWay(peer, lane, BATCH_HANDLER, parts, admission),
      lanesTo: (peer) => messenger.lanesTo(peer),
      eagerBudget: (peer) => messenger.eagerBudget(peer, BATCH_HANDLER),
      sendStop: (peer, handle, session) =>
        this.#sendControl(peer, "_stream_stop", writeStop(handle, session)),
      sendCancel: (peer, streamId) => this.#sendControl(peer, "_stream_cancel", writeCancel(streamId)),
      attach: (peer, handle, streamId) => this.#attach(peer, handle, streamId),
    };
    const identity = {
      workerId: messenger.workerId,
      // Read per ticket: where this node listens is known only once its transport has started.
      get peerInfo() {
        return messenger.peerInfo;
      },
    };
    this.mux = new Mux(clock, link, identity, options, events);
    this.#handle();
    messenger.listen({
      onLaneLost: (peer, lane, reason) => this.mux.handleLaneLost(peer, lane, reason),
      onConnectionClosed: (connection) => this.mux.handleConnectionClosed(connection),
      onPeerUnregistered: (peer) => this.mux.forgetPeer(peer, "the peer was unregistered"),
      onReadEnd: () => this.mux.handleReadEnd(),
    });
  }

  get stats(): MuxStats {
    return this.mux.stats;
  }

  register(consumer: StreamConsumer, producer: InstanceId | null): Anchor {
    return this.mux.register(consumer, producer);
  }

  open(ticket: Ticket): Sender {
    return this.mux.open(ticket.peer.instanceId, ticket);
  }

  flushBatch(): void {
    this.mux.flushBatch();
  }

  onDelivered(callback: () => void): void {
    this.mux.onDelivered(callback);
  }

  close(): void {
    this.mux.close();
  }

  #handle(): void {
    const messenger = this.#messenger;
    const { mux } = this;
    messenger.handleOneWay(BATCH_HANDLER, (payload, origin) => {
      // Without a registered sender there is nobody to return credit to.
      if (origin.peer === null) return;
      mux.handleBatch(origin.peer.instanceId, origin.connection, payload, origin.source);
    });
    messenger.handleOneWay("_stream_stop", (payload, origin) => {
      const stop = readControl(payload, readStop);
      if (stop !== null && origin.peer !== null) {
        mux.handleStop(origin.peer.instanceId, stop.handle, stop.routingSessionId);
      }
    });
    messenger.handleOneWay("_stream_cancel", (payload, origin) => {
      const streamId = readControl(payload, readSenderStreamId);
      if (streamId !== null && origin.peer !== null) mux.handleCancel(origin.peer.instanceId, streamId);
    });
    messenger.handleJson(
      "_anchor_attach",
      (input, origin) => this.#answerAttach(readAttachRequest(input), origin),
    );
    messenger.handleJson("_anchor_detach", (input, origin) => {
      const anchor = this.#ownAnchor(readHandle(input), origin);
      if (anchor?.slot === null) mux.anchors.detached(anchor);
      return null;
    });
    messenger.handleJson("_anchor_finalize", (input, origin) => {
      this.#ownAnchor(readHandle(input), origin)?.end({ kind: "finalized" });
      return null;
    });
    messenger.handleJson("_anchor_cancel", (input, origin) => {
      this.#ownAnchor(readHandle(input), origin)?.end({ kind: "dropped", reason: "the producer cancelled" });
      return null;
    });
  }

  /** The anchor of a handle, if it is ours and the caller is who may speak for it. */
  #ownAnchor(handle: Handle, origin: MessageOrigin) {
    const anchor = this.mux.anchors.get(handle.lo);
    if (anchor === undefined || handle.hi !== this.#messenger.workerId || origin.peer === null) {
      return undefined;
    }
    return anchor.producer === null || anchor.producer === origin.peer.instanceId ? anchor : undefined;
  }

  #answerAttach(request: AttachRequest, origin: MessageOrigin): unknown {
    if (!request.supportedTransportKeys.includes(MUX_TRANSPORT_KEY)) {
      return writeAttachResponse({ refused: `transport error: only ${MUX_TRANSPORT_KEY} is offered` });
    }
    if (request.handle.hi !== this.#messenger.workerId) {
      return writeAttachResponse({ refused: `anchor ${request.handle.lo} not found` });
    }
    const peer = origin.peer === null ? null : origin.peer.instanceId;
    const answer = this.mux.anchors.attach(request.handle.lo, peer, request.senderStreamId);
    if ("refused" in answer) return writeAttachResponse(answer);
    const { heartbeatIntervalMs, initialCredit, slotByteBudget } = answer.ticket;
    return writeAttachResponse({
      routingSessionId: answer.sessionId,
      heartbeatIntervalMs,
      initialCredit,
      slotByteBudget,
    });
  }

  async #attach(peer: InstanceId, handle: Handle, streamId: bigint): Promise<AttachGrant> {
    const request = writeAttachRequest(handle, streamId, this.#messenger.workerId);
    const answer = await this.#messenger.requestJson(peer, "_anchor_attach", request, ATTACH_TIMEOUT_MS);
    return readAttachResponse(answer);
  }

  #sendControl(peer: InstanceId, handler: string, value: unknown): void {
    try {
      this.#messenger.sendJson(peer, handler, value);
    } catch (error) {
      // The peer has just been forgotten; then its streams are being ended anyway.
      if (toTokenplaneError(error).code !== "peer_unknown") throw error;
    }
  }
}

/** A control message of a peer; null when it cannot be read, as for any other message that says nothing. */
function readControl<T>(payload: Uint8Array, read: (input: unknown) => T): T | null {
  try {
    return read(parseJson(payload, CONTROL_BOUNDS));
  } catch {
    return null;
  }
}
