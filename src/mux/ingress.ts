/**
 * The receiving side of one lane of one peer: batches in, items out to anchors, and what is owed in return.
 *
 * Nothing here waits. Faults are scoped: a broken record closes its slot, a broken batch loses its rest, and neither
 * touches another stream.
 */
import type { StreamEnd } from "../stream.ts";
import type { MuxContext } from "./context.ts";
import type { ByteBudget } from "./credit.ts";
import { GapHolds } from "./gap_holds.ts";
import type { IngressHost } from "./ingress_host.ts";
import { IngressReplies } from "./ingress_replies.ts";
import { type BatchSource, IngressSlot } from "./ingress_slot.ts";
import { recordsBucket } from "./stats.ts";
import {
  CloseReason,
  decodeRecords,
  newBatchHeader,
  readBatchHeader,
  readU32,
  readU64,
  RecordType,
  type RecordVisitor,
  sequenceGap,
} from "./wire/batch.ts";
import { decodeItemText } from "./wire/item_frame.ts";
import { slotIndex } from "./wire/slot_id.ts";
import {
  classifyFrame,
  decodeErrorText,
  FrameKind,
  isItem,
  newItemView,
  readItem,
} from "./wire/stream_frame.ts";

/** One lane's ingress. */
export class Ingress implements RecordVisitor {
  /** The inbound connection that brought the last batch; -1 once it is gone. */
  connection = -1;
  /** That connection. */
  source: BatchSource | undefined = undefined;
  readonly replies: IngressReplies;
  readonly #context: MuxContext;
  readonly #host: IngressHost;
  readonly #peerBytes: ByteBudget;
  readonly #slots: (IngressSlot | null)[] = [];
  readonly #header = newBatchHeader();
  readonly #view = newItemView();
  readonly #holds: GapHolds;
  #bytes: Uint8Array = new Uint8Array(0);
  #epoch: bigint | null = null;
  #lastSeq = -1;
  #live = 0;

  constructor(context: MuxContext, host: IngressHost, peerBytes: ByteBudget) {
    this.#context = context;
    this.#host = host;
    this.#peerBytes = peerBytes;
    this.#holds = new GapHolds(context, peerBytes);
    this.replies = new IngressReplies(
      this.#slots,
      context.options,
      context.stats,
      peerBytes,
      (reason) => this.rejectAll(`the lane that carried its credit was lost: ${reason}`),
    );
  }

  /** Open slots. */
  get live(): number {
    return this.#live;
  }

  get epoch(): bigint | null {
    return this.#epoch;
  }

  /** The open slot of exactly this id. */
  slot(id: number): IngressSlot | null {
    const slot = this.#slots[slotIndex(id)];
    return slot !== undefined && slot !== null && slot.id === id ? slot : null;
  }

  /** One batch of this lane. `payload` is valid only during the call. */
  handleBatch(payload: Uint8Array): void {
    const { stats } = this.#context;
    const header = this.#header;
    if (!readBatchHeader(payload, header)) {
      stats.malformedBatches++;
      return;
    }
    stats.batchesReceived++;
    stats.recordsDeclared += header.recordCount;
    stats.recordsPerBatchReceived[recordsBucket(header.recordCount)]!++;
    if (!this.#adoptEpoch(header.epoch)) {
      stats.dropped.stale_epoch += header.recordCount;
      return;
    }
    if (this.#lastSeq >= 0) stats.batchSeqGaps += sequenceGap(this.#lastSeq, header.seq) === 0 ? 0 : 1;
    this.#lastSeq = header.seq;
    this.#bytes = payload;
    if (decodeRecords(payload, header.recordCount, this) !== null) stats.malformedBatches++;
    if (this.replies.hasDrained) this.#host.replySoon();
  }

  onRecord(type: RecordType, id: number, seq: number, start: number, end: number): void {
    this.#context.stats.recordsReceived++;
    switch (type) {
      case RecordType.data:
      case RecordType.heartbeat: {
        const slot = this.#slots[slotIndex(id)];
        if (slot === undefined || slot === null || slot.id !== id) {
          this.#stray(slot ?? null);
          // It beats because it does not know; a refusal can have been lost with its connection.
          if (type === RecordType.heartbeat) this.#refuse(id, CloseReason.unknownSlot);
        } else if (seq === slot.next) this.#inOrder(slot, type, start, end);
        else this.#outOfOrder(slot, type, seq, start, end);
        return;
      }
      case RecordType.openSlot:
        this.#open(id, seq, readU64(this.#bytes, start), readU64(this.#bytes, start + 8));
        return;
      case RecordType.creditUpdate:
        this.#host.handleCredit(id, readU32(this.#bytes, start));
        return;
      case RecordType.closeSlot: {
        const reason = this.#bytes[start] as CloseReason;
        if (reason >= CloseReason.unknownSlot) this.#host.handleRejected(id);
        else this.#closeByOwner(id, seq, reason);
      }
    }
  }

  /** An anchor took waiting items: `records` of them, `bytes` in all. */
  drained(slot: IngressSlot, records: number, bytes: number): void {
    slot.bytes -= bytes;
    this.#peerBytes.release(bytes);
    if (slot.closed) return;
    slot.drainData(records);
    if (this.replies.markDrained(slot.id)) this.#host.replySoon();
  }

  /** Closes a slot from this side and tells its owner why. The anchor is told nothing. */
  reject(slot: IngressSlot, reason: CloseReason): void {
    if (slot.closed) return;
    this.#refuse(slot.id, reason);
    this.#close(slot);
  }

  /** Gives back the bytes of a slot whose anchor is over. */
  forget(slot: IngressSlot): void {
    this.#peerBytes.release(slot.bytes);
    slot.bytes = 0;
  }

  /** Ends every stream of this lane: its peer, its connection or its epoch is gone. */
  retireAll(reason: string): void {
    for (const slot of this.#slots) {
      if (slot !== null) this.#closeWith(slot, { kind: "dropped", reason });
    }
  }

  /** As `retireAll`, for slots whose owner may still live and has to be told. */
  rejectAll(reason: string): void {
    for (const slot of this.#slots) {
      if (slot === null) continue;
      this.#refuse(slot.id, CloseReason.unknownSlot);
      this.#closeWith(slot, { kind: "dropped", reason });
    }
  }

  /** The watchdog's window has passed; returns whether the slot goes on. */
  look(slot: IngressSlot): boolean {
    if (slot.closed) return false;
    const { clock, options, stats } = this.#context;
    if (slot.countSilence(clock.now(), this.source) < options.missedBeats) return true;
    stats.watchdogFirings++;
    this.#refuse(slot.id, CloseReason.unknownSlot);
    this.#closeWith(slot, { kind: "timeout", reason: "the sender fell silent" });
    return false;
  }

  #adoptEpoch(epoch: bigint): boolean {
    if (this.#epoch !== null && epoch < this.#epoch) return false;
    if (this.#epoch === null || epoch > this.#epoch) {
      this.retireAll("the sender started anew");
      this.#epoch = epoch;
      this.#lastSeq = -1;
    }
    return true;
  }

  #open(id: number, seq: number, anchorId: bigint, sessionId: bigint): void {
    const index = slotIndex(id);
    if (index >= this.#context.options.maxSlotsPerPeer) {
      this.#refuse(id, CloseReason.protocolError);
      return;
    }
    const incumbent = this.#slots[index] ?? null;
    if (incumbent !== null && incumbent.id !== id) {
      this.#context.stats.dropped.slot_collision++;
      this.#refuse(id, CloseReason.protocolError);
      return;
    }
    const anchor = this.#host.claim(anchorId, sessionId);
    if (anchor === null) {
      this.#context.stats.dropped.unknown_slot++;
      this.#refuse(id, CloseReason.unknownSlot);
      return;
    }
    if (incumbent !== null) {
      this.#closeWith(incumbent, { kind: "dropped", reason: "its slot was opened again" });
    }
    while (this.#slots.length <= index) this.#slots.push(null);
    const slot = new IngressSlot(id, this, anchor, anchor.ticket.initialCredit, seq + 1);
    this.#slots[index] = slot;
    anchor.enterSlot(slot);
    slot.lookedAt = this.#context.clock.now();
    slot.watchdog = this.#context.watchdogs.arm(slot);
    this.#live++;
    this.#context.stats.liveIngressSlots++;
  }

  #inOrder(slot: IngressSlot, type: RecordType, start: number, end: number): void {
    slot.alive = true;
    slot.next++;
    this.#apply(slot, type, this.#bytes, start, end);
    if ((slot.held !== null || slot.deferredClose !== null) && !slot.closed) this.#releaseHeld(slot);
  }

  #outOfOrder(slot: IngressSlot, type: RecordType, seq: number, start: number, end: number): void {
    slot.alive = true;
    if (slot.terminated) {
      this.#context.stats.dropped.closed_slot++;
      return;
    }
    const bytes = type === RecordType.heartbeat ? null : this.#bytes;
    if (this.#holds.hold(slot, seq, bytes, start, end) === "overflow") {
      this.#fault(slot, "it ran too far ahead of a gap");
    }
  }

  /** A gap may have closed: what was held behind it follows, and the owner's close after that. */
  #releaseHeld(slot: IngressSlot): void {
    const holds = this.#holds;
    for (let record = holds.takeNext(slot); record !== undefined; record = holds.takeNext(slot)) {
      slot.next++;
      if (record === null) this.#apply(slot, RecordType.heartbeat, this.#bytes, 0, 0);
      else this.#apply(slot, RecordType.data, record, 0, record.length);
      if (slot.closed) return;
    }
    const close = slot.deferredClose;
    if (close !== null && close.seq <= slot.next) this.#ownerClosed(slot, close.reason);
  }

  /** One record in its turn: charge it, deliver it, or end the stream. */
  #apply(slot: IngressSlot, type: RecordType, bytes: Uint8Array, start: number, end: number): void {
    if (type === RecordType.heartbeat) {
      if (!slot.anchor.ticket.freeBeats) this.#applyBeat(slot);
      return;
    }
    if (!isItem(bytes, start, end)) {
      this.#applyOther(slot, bytes, start, end);
      return;
    }
    if (slot.terminated) {
      this.#context.stats.dropped.closed_slot++;
      return;
    }
    const { receiver } = slot;
    if (!(receiver === null ? slot.admitData() : slot.passData())) {
      this.#fault(slot, "it sent more than its window");
      return;
    }
    const view = this.#view;
    const kind = readItem(bytes, start, end, view);
    if (kind === "other") {
      this.#fault(slot, "it sent an item that is neither data nor text");
      return;
    }
    if (receiver === null) {
      slot.anchor.hold(kind, bytes, view.start, view.end);
      const size = view.end - view.start;
      slot.bytes += size;
      this.#peerBytes.charge(size);
      return;
    }
    try {
      if (kind === "data") receiver.onData(bytes, view.start, view.end);
      else receiver.onNote(decodeItemText(bytes, view.start, view.end));
    } catch (error) {
      slot.anchor.consumerFailed(error);
    }
    this.replies.markDrained(slot.id);
  }

  #applyOther(slot: IngressSlot, bytes: Uint8Array, start: number, end: number): void {
    const kind = classifyFrame(bytes, start, end);
    switch (kind) {
      case FrameKind.heartbeat:
        this.#applyBeat(slot);
        return;
      case FrameKind.senderError:
        // A soft error is data that no consumer of ours asks for; it costs credit like any.
        this.#applyBeat(slot);
        return;
      case FrameKind.invalid:
        this.#fault(slot, "it sent a frame that is none");
        return;
    }
    if (!slot.admitTerminal()) {
      this.#fault(slot, "it ended twice");
      return;
    }
    slot.drainTerminal();
    slot.terminated = true;
    // What a peer has sent beyond its own terminal is nobody's.
    this.#holds.clear(slot);
    if (kind === FrameKind.detached) {
      slot.detached = true;
    } else if (kind === FrameKind.finalized) slot.anchor.end({ kind: "finalized" });
    else if (kind === FrameKind.transportError) {
      slot.anchor.end({ kind: "transport_error", message: decodeErrorText(bytes, start, end) });
    } else slot.anchor.end({ kind: "dropped", reason: "the producer left" });
  }

  /** A record that carries nothing: let in and drained at once. */
  #applyBeat(slot: IngressSlot): void {
    if (!slot.passData()) {
      this.#fault(slot, "it sent more than its window");
      return;
    }
    this.replies.markDrained(slot.id);
  }

  #closeByOwner(id: number, seq: number, reason: CloseReason): void {
    const slot = this.slot(id);
    if (slot === null) {
      this.#stray(this.#slots[slotIndex(id)] ?? null);
    } else if (seq > slot.next) {
      slot.deferredClose ??= { seq, reason };
    } else {
      this.#ownerClosed(slot, reason);
    }
  }

  #ownerClosed(slot: IngressSlot, reason: CloseReason): void {
    if (slot.detached) {
      this.#close(slot);
      this.forget(slot);
      this.#host.detached(slot.anchor);
      return;
    }
    // After a terminal the anchor has its end and ignores this one.
    this.#closeWith(
      slot,
      reason === CloseReason.terminalSent
        ? { kind: "protocol", reason: "the slot was closed without a terminal" }
        : { kind: "dropped", reason: "the producer left" },
    );
  }

  #stray(incumbent: IngressSlot | null): void {
    const { stats } = this.#context;
    if (incumbent === null) {
      stats.dropped.closed_slot++;
    } else {
      stats.dropped.generation++;
      stats.generationMismatches++;
    }
  }

  #fault(slot: IngressSlot, reason: string): void {
    this.#refuse(slot.id, CloseReason.protocolError);
    this.#closeWith(slot, { kind: "protocol", reason });
  }

  #refuse(id: number, reason: CloseReason): void {
    this.replies.refuse(id, reason);
    this.#host.replyNow();
  }

  #closeWith(slot: IngressSlot, end: StreamEnd): void {
    this.#close(slot);
    slot.anchor.end(end);
  }

  /** Takes the slot out of the table; items that wait in its anchor stay there. */
  #close(slot: IngressSlot): void {
    slot.closed = true;
    this.#slots[slotIndex(slot.id)] = null;
    this.#live--;
    const { stats, watchdogs } = this.#context;
    stats.liveIngressSlots--;
    if (slot.watchdog !== null) watchdogs.cancel(slot.watchdog);
    this.#holds.clear(slot);
  }
}
