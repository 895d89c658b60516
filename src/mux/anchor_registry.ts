/** The anchors of one mux: who may be claimed, by whom, and until when. */
import type { InstanceId } from "../../transports/contract.ts";
import type { Handle, StreamConsumer, StreamEnd, Ticket } from "../stream.ts";
import { type AnchorOwner, MuxAnchor } from "./anchor.ts";
import type { DeadlineLane, Deadlines } from "./deadlines.ts";
import type { MuxLink } from "./link.ts";
import type { MuxOptions } from "./options.ts";
import type { MuxStats } from "./stats.ts";
import { CloseReason } from "./wire/batch.ts";

/** Why an attach is refused; the wire's own words. */
export interface AttachRefusal {
  readonly refused: string;
}

/** What the registry calls back for. */
export interface AnchorEvents {
  delivered(): void;
  consumerFailed(error: unknown): void;
}

/** Anchors by local id. */
export class AnchorRegistry implements AnchorOwner {
  readonly #anchors = new Map<number, MuxAnchor>();
  readonly #options: MuxOptions;
  readonly #stats: MuxStats;
  readonly #link: MuxLink;
  readonly #events: AnchorEvents;
  readonly #accepts: DeadlineLane<MuxAnchor>;
  // Session ids count up from a random start: a ticket cannot be guessed from another one's.
  #nextSession = crypto.getRandomValues(new BigUint64Array(1))[0]!;
  #nextLocalId = 1;

  constructor(
    options: MuxOptions,
    stats: MuxStats,
    link: MuxLink,
    deadlines: Deadlines,
    events: AnchorEvents,
  ) {
    this.#options = options;
    this.#stats = stats;
    this.#link = link;
    this.#events = events;
    this.#accepts = deadlines.lane(options.acceptTimeoutMs, (anchor) => this.#expired(anchor));
  }

  get size(): number {
    return this.#anchors.size;
  }

  /** A new stream that `producer` (null: anyone) may claim within the accept window. */
  register(
    workerId: bigint,
    peer: Ticket["peer"],
    consumer: StreamConsumer,
    producer: InstanceId | null,
  ): MuxAnchor {
    const localId = this.#nextLocalId++;
    const sessionId = this.#mintSession();
    const handle: Handle = { hi: workerId, lo: BigInt(localId) };
    const { initialCredit, slotByteBudget, heartbeatIntervalMs, lanes, streamSetup } = this.#options;
    const ticket: Ticket = {
      handle,
      routingSessionId: streamSetup === "ticket" ? sessionId : 0n,
      initialCredit,
      slotByteBudget,
      heartbeatIntervalMs,
      lanes,
      freeBeats: true,
      peer,
    };
    const anchor = new MuxAnchor(this, ticket, localId, sessionId, producer, consumer);
    this.#anchors.set(localId, anchor);
    this.#stats.liveAnchors = this.#anchors.size;
    anchor.accept = this.#accepts.arm(anchor);
    return anchor;
  }

  /** The anchor that an OpenSlot of `peer` names, if it may have it; it is taken then. */
  claim(anchorId: bigint, sessionId: bigint, peer: InstanceId): MuxAnchor | null {
    const anchor = this.#anchors.get(Number(anchorId));
    const { attach } = this.#stats.anchors;
    if (
      anchor === undefined || anchor.slot !== null || anchor.sessionId !== sessionId || anchor.ending ||
      (anchor.producer !== null && anchor.producer !== peer)
    ) {
      attach.observe(false);
      return null;
    }
    // Who attached first has been counted.
    if (!anchor.attached) attach.observe(true);
    this.#stopAccept(anchor);
    return anchor;
  }

  /** `_anchor_attach`: grants the one window of an anchor, or says why not. */
  attach(
    localId: bigint,
    peer: InstanceId | null,
    senderStreamId: bigint,
  ): MuxAnchor | AttachRefusal {
    const anchor = this.#anchors.get(Number(localId));
    const { attach } = this.#stats.anchors;
    if (anchor === undefined || (anchor.producer !== null && anchor.producer !== peer)) {
      attach.observe(false);
      return { refused: `anchor ${localId} not found` };
    }
    if (anchor.attached || anchor.slot !== null) {
      attach.observe(false);
      return { refused: `anchor ${localId} already attached` };
    }
    attach.observe(true);
    anchor.attached = true;
    anchor.cancelTo = peer === null ? null : { peer, senderStreamId };
    return anchor;
  }

  /** The anchor's sender has left in peace; the accept window runs again. */
  detached(anchor: MuxAnchor): void {
    this.#stats.anchors.detach.observe(true);
    anchor.leaveSlot();
    anchor.attached = false;
    anchor.cancelTo = null;
    if (!anchor.ending) anchor.accept = this.#accepts.arm(anchor);
  }

  /** Ends the anchor of a local id as its owner's peers may ask (`_anchor_finalize`, `_anchor_cancel`). */
  get(localId: bigint): MuxAnchor | undefined {
    return this.#anchors.get(Number(localId));
  }

  retire(anchor: MuxAnchor, end: StreamEnd | null): void {
    let stop = end === null;
    const { cancel, finalize } = this.#stats.anchors;
    if (end === null) cancel.observe(true);
    else if (end.kind === "finalized") finalize.observe(true);
    this.#anchors.delete(anchor.localId);
    this.#stats.liveAnchors = this.#anchors.size;
    this.#stopAccept(anchor);
    const slot = anchor.slot;
    if (slot !== null) {
      // After its terminal nothing but the owner's close is to come, which finds its way alone.
      if (!slot.closed && (stop || !slot.terminated)) slot.ingress.reject(slot, CloseReason.unknownSlot);
      else stop = false; // its owner has closed it: there is nobody left to stop
      slot.ingress.forget(slot);
    }
    if (!stop) return;
    const { cancelTo, producer } = anchor;
    if (cancelTo !== null) this.#link.sendCancel(cancelTo.peer, cancelTo.senderStreamId);
    else if (producer !== null) this.#link.sendStop(producer, anchor.ticket.handle, anchor.sessionId);
  }

  delivered(): void {
    this.#events.delivered();
  }

  consumerFailed(_anchor: MuxAnchor, error: unknown): void {
    this.#events.consumerFailed(error);
  }

  /** Ends every anchor that `matches`. */
  endAll(matches: (anchor: MuxAnchor) => boolean, reason: string): void {
    for (const anchor of [...this.#anchors.values()]) {
      if (matches(anchor)) anchor.end({ kind: "dropped", reason });
    }
  }

  #expired(anchor: MuxAnchor): void {
    anchor.accept = null;
    if (anchor.slot !== null || anchor.over) return;
    if (anchor.producer !== null) {
      this.#link.sendStop(anchor.producer, anchor.ticket.handle, anchor.sessionId);
    }
    anchor.end({ kind: "timeout", reason: "no sender came" });
  }

  #stopAccept(anchor: MuxAnchor): void {
    if (anchor.accept === null) return;
    this.#accepts.cancel(anchor.accept);
    anchor.accept = null;
  }

  #mintSession(): bigint {
    this.#nextSession = BigInt.asUintN(64, this.#nextSession + 1n);
    if (this.#nextSession === 0n) this.#nextSession = 1n;
    return this.#nextSession;
  }
}
