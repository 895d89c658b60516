/**
 * What one lane owes its peer: credit for what was drained, and refusals of slots. Kept as state, not as a queue, so
 * it does not grow however long the lane is parked; its cost follows the slots that were drained, never those that
 * are merely open.
 */
import { ControlInbox, type ControlVisitor } from "./control_inbox.ts";
import type { ByteBudget } from "./credit.ts";
import { DirtySet } from "./dirty_set.ts";
import type { IngressSlot } from "./ingress_slot.ts";
import type { OpenBatch } from "./open_batch.ts";
import type { MuxOptions } from "./options.ts";
import type { ReplySource } from "./reply_source.ts";
import type { MuxStats } from "./stats.ts";
import type { CloseReason } from "./wire/batch.ts";
import { CLOSE_SLOT_BYTES, CREDIT_BYTES } from "./wire/record_buffer.ts";
import { slotIndex } from "./wire/slot_id.ts";

/** The replies of one lane. */
export class IngressReplies implements ReplySource, ControlVisitor {
  readonly #slots: readonly (IngressSlot | null)[];
  readonly #options: MuxOptions;
  readonly #stats: MuxStats;
  readonly #peerBytes: ByteBudget;
  readonly #dirty = new DirtySet();
  readonly #refusals: ControlInbox;
  readonly #onLost: (reason: string) => void;
  readonly #visitDirty = (index: number): void => this.#appendGrant(index);
  // Set while replies are being appended.
  #batch: OpenBatch | null = null;
  #cap = 0;

  constructor(
    slots: readonly (IngressSlot | null)[],
    options: MuxOptions,
    stats: MuxStats,
    peerBytes: ByteBudget,
    onLost: (reason: string) => void,
  ) {
    this.#onLost = onLost;
    this.#slots = slots;
    this.#options = options;
    this.#stats = stats;
    this.#peerBytes = peerBytes;
    this.#refusals = new ControlInbox(
      (id) => slots[slotIndex(id)]?.id === id,
      options.maxSlotsPerPeer,
    );
  }

  get owed(): boolean {
    return !this.#dirty.isEmpty || this.#refusals.size > 0;
  }

  /** Whether any slot was drained and not yet reconciled. */
  get hasDrained(): boolean {
    return !this.#dirty.isEmpty;
  }

  /** The slot was drained; true when it was not marked already. */
  markDrained(id: number): boolean {
    return this.#dirty.mark(slotIndex(id));
  }

  /** A slot of the peer's is refused. Called while the slot is still in the table, if it ever was. */
  refuse(id: number, reason: CloseReason): void {
    if (!this.#refusals.addClose(id, reason)) this.#stats.controlRefused++;
  }

  appendReplies(batch: OpenBatch, cap: number): void {
    this.#batch = batch;
    this.#cap = cap;
    this.#refusals.drain(this);
    this.#dirty.drain(this.#visitDirty);
    this.#batch = null;
  }

  lost(reason: string): void {
    this.#onLost(reason);
  }

  onGrant(): void {
    // Grants are kept in the slots' own ledgers; the inbox holds refusals alone.
  }

  onClose(slot: number, reason: CloseReason): void {
    const batch = this.#batch!;
    // Into an empty batch whatever the cap: under a tiny one it would never go.
    if (batch.count === 0 || batch.hasRoom(CLOSE_SLOT_BYTES, 1, this.#cap)) {
      batch.urgent.appendClose(slot, 0, reason);
      this.#stats.stagedRecords++;
    } else {
      this.refuse(slot, reason);
    }
  }

  /** One slot that was drained: grants everything drained, unless the slot still holds too much. */
  #appendGrant(index: number): void {
    const slot = this.#slots[index];
    if (slot === undefined || slot === null || slot.ungranted === 0) return;
    if (slot.bytes >= this.#options.slotByteBudget) return;
    // Over the peer's budget only slots that hold something wait: what they hold is what fills it. One that is empty
    // keeps its window, so stalled clients cannot starve the others. Its next drain marks a slot that waits again.
    if (this.#peerBytes.full && slot.bytes > 0) return;
    const batch = this.#batch!;
    if (batch.count > 0 && !batch.hasRoom(CREDIT_BYTES, 1, this.#cap)) {
      this.#dirty.mark(index);
      return;
    }
    batch.urgent.appendCredit(slot.id, slot.takeGrant());
    this.#stats.stagedRecords++;
    this.#stats.creditReplies++;
  }
}
