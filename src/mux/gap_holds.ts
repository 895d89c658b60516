/**
 * Records that came ahead of a gap in their slot's sequence. Lanes keep order, so only a peer that broke the rules, or
 * lost something, brings any; what they may cost is bounded by the slot's window and by the byte budgets.
 */
import type { MuxContext } from "./context.ts";
import type { ByteBudget } from "./credit.ts";
import type { IngressSlot } from "./ingress_slot.ts";

/** A record that came ahead of its turn: the frame's bytes, copied; null for a heartbeat record. */
export type HeldRecord = Uint8Array | null;

/** What became of a record that is not the next of its slot. */
export type HoldResult = "held" | "duplicate" | "overflow";

/** The holds of one lane's slots; keeps their bytes on the slot's and the peer's account. */
export class GapHolds {
  readonly #context: MuxContext;
  readonly #peerBytes: ByteBudget;

  constructor(context: MuxContext, peerBytes: ByteBudget) {
    this.#context = context;
    this.#peerBytes = peerBytes;
  }

  /** Holds a copy of `bytes[start, end)` (null: a heartbeat record) until the records before `seq` have come. */
  hold(slot: IngressSlot, seq: number, bytes: Uint8Array | null, start: number, end: number): HoldResult {
    const { stats, options } = this.#context;
    if (seq < slot.next || slot.held?.has(seq)) {
      stats.dropped.duplicate++;
      return "duplicate";
    }
    const size = end - start;
    if (slot.bytes + size > options.slotByteBudget || !this.#peerBytes.fits(size)) {
      stats.holdOverflows++;
      return "overflow";
    }
    const held = slot.held ??= new Map();
    // A gap can hold no more than the window and the terminal: further records would overspend.
    if (held.size > slot.anchor.ticket.initialCredit) return "overflow";
    held.set(seq, bytes === null ? null : bytes.slice(start, end));
    slot.bytes += size;
    this.#peerBytes.charge(size);
    stats.heldRecords++;
    return "held";
  }

  /** Takes the record whose turn it is; undefined when that one has not come. */
  takeNext(slot: IngressSlot): HeldRecord | undefined {
    const record = slot.held?.get(slot.next);
    if (record === undefined) return undefined;
    slot.held!.delete(slot.next);
    if (slot.held!.size === 0) slot.held = null;
    this.#release(slot, record);
    return record;
  }

  /** Forgets what a slot holds. */
  clear(slot: IngressSlot): void {
    if (slot.held === null) return;
    for (const record of slot.held.values()) this.#release(slot, record);
    slot.held = null;
  }

  #release(slot: IngressSlot, record: HeldRecord): void {
    const size = record === null ? 0 : record.length;
    slot.bytes -= size;
    this.#peerBytes.release(size);
    this.#context.stats.heldRecords--;
  }
}
