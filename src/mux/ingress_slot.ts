/** One open slot of a peer's: what has been let in, what waits, what is held for a gap. */
import type { InboundConnection } from "../../transports/contract.ts";
import type { StreamConsumer } from "../stream.ts";
import type { MuxAnchor } from "./anchor.ts";
import { IngressCredit } from "./credit.ts";
import type { DeadlineEntry } from "./deadlines.ts";
import type { HeldRecord } from "./gap_holds.ts";
import type { Ingress } from "./ingress.ts";
import type { CloseReason } from "./wire/batch.ts";

/** How far the reading of a connection has got. */
export type BatchSource = Pick<InboundConnection, "caughtUpAt">;

/**
 * State of one slot. Fields are written by `Ingress` unless they say otherwise.
 *
 * Memory that a record touches is cold: thousands of other slots had their turn in between. So the ledger is part of the
 * slot, and what every record reads or writes stands first and together: two cache lines with the ledger's fields.
 */
export class IngressSlot extends IngressCredit {
  /** Slot id, generation included. */
  readonly id: number;
  /** Sequence of the next record in order. */
  next: number;
  /** Who takes items at once; null while they have to wait in the anchor. Written by the anchor. */
  receiver: StreamConsumer | null = null;
  /** Something arrived since the watchdog last looked. */
  alive = true;
  /** Its terminal has been seen: what follows it is dropped. */
  terminated = false;
  /** Bytes charged: waiting and held. Read for the watermark; also written by the anchor as it drains. */
  bytes = 0;
  /** Records that came ahead of a gap, by sequence; null while there is none. Written by `GapHolds`. */
  held: Map<number, HeldRecord> | null = null;
  /** A CloseSlot that has to wait for held records. */
  deferredClose: { readonly seq: number; readonly reason: CloseReason } | null = null;
  /** When the watchdog last looked, by the mux's clock; until then, when the slot was opened. */
  lookedAt = 0;
  /** Looks in a row that found nothing. */
  misses = 0;
  /** Out of the table: drains return no more credit. */
  closed = false;
  /** Its sender detached: the close that follows ends the slot, not the stream. */
  detached = false;
  watchdog: DeadlineEntry<IngressSlot> | null = null;
  readonly ingress: Ingress;
  readonly anchor: MuxAnchor;

  constructor(id: number, ingress: Ingress, anchor: MuxAnchor, window: number, next: number) {
    super(window);
    this.id = id;
    this.next = next;
    this.ingress = ingress;
    this.anchor = anchor;
  }

  /** A look of the watchdog; `source` is where its records come from. Returns how many in a row have found it silent. */
  countSilence(now: number, source: BatchSource | undefined): number {
    const since = this.lookedAt;
    this.lookedAt = now;
    // A sender without credit has nothing it could send; that it lives is its connection's to say. After a terminal
    // only the close is to come, and that costs no credit.
    if (this.alive || (this.exhausted && !this.terminated)) {
      this.alive = false;
      this.misses = 0;
    } else if ((source?.caughtUpAt?.() ?? now) >= since) {
      // Else its records and beats may be among what has come in and has not been read: we were deaf, not it silent.
      this.misses++;
    }
    return this.misses;
  }
}
