/**
 * Control for slots, kept as state rather than as a queue: however long a batcher is parked, there is one entry for
 * each slot id (generation included), with the sum of its grants and the first reason to close it.
 *
 * The bound follows allocation. An entry for a live slot is never refused. Ids that are not live share a small, fixed
 * number of entries (a rejected open never was live, and still has to be answered); past that they are refused and
 * counted. Whoever closes a slot asks for the close first and gives the slot up after.
 */
import type { CloseReason } from "./wire/batch.ts";

/** Takes what a drain finds: for each slot, in order of its first entry, the grant and then the close. */
export interface ControlVisitor {
  onGrant(slot: number, delta: number): void;
  onClose(slot: number, reason: CloseReason): void;
}

interface ControlEntry {
  credit: number;
  close: CloseReason | null;
}

const U32_MAX = 0xffff_ffff;
const FIRST_COMPACTION = 1_024;

/** Coalesced control of one batcher. */
export class ControlInbox {
  readonly #isLive: (slot: number) => boolean;
  readonly #strangerCap: number;
  // A Map keeps the order of first insertion and is keyed by number: one look-up per control record, none per token.
  #entries = new Map<number, ControlEntry>();
  #compactAt = FIRST_COMPACTION;
  #strangers = 0;
  #refused = 0;

  /** `isLive` tells whether a slot id is allocated now; `strangerCap` is the number of entries for ids that are not. */
  constructor(isLive: (slot: number) => boolean, strangerCap = 0) {
    this.#isLive = isLive;
    this.#strangerCap = strangerCap;
  }

  /** Slot ids with an entry. */
  get size(): number {
    return this.#entries.size;
  }

  /** Entries refused so far. */
  get refused(): number {
    return this.#refused;
  }

  /** Adds credit for a slot, saturating at the largest u32; false when the entry was refused. */
  addGrant(slot: number, delta: number): boolean {
    const entry = this.#entries.get(slot) ?? this.#add(slot);
    if (entry === null) return false;
    entry.credit = Math.min(U32_MAX, entry.credit + delta);
    return true;
  }

  /** Asks for a slot to be closed; the first reason wins. False when the entry was refused. */
  addClose(slot: number, reason: CloseReason): boolean {
    const entry = this.#entries.get(slot) ?? this.#add(slot);
    if (entry === null) return false;
    entry.close ??= reason;
    return true;
  }

  /** Empties the inbox into `visitor`, which must not throw. What the visitor adds stays for the next drain. */
  drain(visitor: ControlVisitor): void {
    if (this.#entries.size === 0) return;
    const drained = this.#entries;
    this.#entries = new Map();
    this.#strangers = 0;
    this.#compactAt = FIRST_COMPACTION;
    for (const [slot, entry] of drained) {
      if (entry.credit > 0) visitor.onGrant(slot, entry.credit);
      if (entry.close !== null) visitor.onClose(slot, entry.close);
    }
  }

  #add(slot: number): ControlEntry | null {
    if (!this.#isLive(slot)) {
      if (this.#strangers >= this.#strangerCap) {
        this.#refused++;
        return null;
      }
      this.#strangers++;
    } else if (this.#entries.size >= this.#compactAt) {
      this.#compact();
    }
    const entry: ControlEntry = { credit: 0, close: null };
    this.#entries.set(slot, entry);
    return entry;
  }

  /**
   * Slots that were live when they got their entry may have gone since, over and over while the batcher is parked.
   * Their credit is worth nothing, and their closes count as those of strangers.
   */
  #compact(): void {
    this.#strangers = 0;
    for (const [slot, entry] of this.#entries) {
      if (this.#isLive(slot)) continue;
      if (entry.close !== null && this.#strangers < this.#strangerCap) {
        this.#strangers++;
        continue;
      }
      if (entry.close !== null) this.#refused++;
      this.#entries.delete(slot);
    }
    this.#compactAt = Math.max(FIRST_COMPACTION, this.#entries.size * 2);
  }
}
