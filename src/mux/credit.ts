/**
 * The ledgers of one slot's window, and byte budgets.
 *
 * The window C counts *data* records (heartbeats that cost credit and soft errors included). One more place is kept
 * for the terminal, so that a stream can always end. Open, close and credit records cost nothing and never wait.
 *
 * Conserved for every slot: owner's `data` + data records on the way + `outstanding` + grants on the way = C.
 */

/** Bytes one slot may hold. */
export const DEFAULT_SLOT_BYTE_BUDGET = 1_048_576;

const U32_MAX = 0xffff_ffff;

/** What a receiver has allowed one slot. */
export interface SlotLimits {
  /** Data records. */
  readonly initialCredit: number;
  /** Bytes. */
  readonly slotByteBudget: number;
}

/** Resolves advertised limits: no credit at all means the mux cannot be used (null), no budget means the default. */
export function resolveSlotLimits(initialCredit: number, slotByteBudget: number): SlotLimits | null {
  if (initialCredit === 0) return null;
  return { initialCredit, slotByteBudget: slotByteBudget === 0 ? DEFAULT_SLOT_BYTE_BUDGET : slotByteBudget };
}

/** What the owner of a slot may still send. Written by the batcher alone. */
export class EgressCredit {
  #data: number;
  #terminal = 1;

  /** Starts with the window that the receiver advertised. */
  constructor(initialCredit: number) {
    this.#data = initialCredit;
  }

  /** Data records that may be sent now. */
  get data(): number {
    return this.#data;
  }

  /** 1 until the terminal has been sent, then 0. */
  get terminal(): number {
    return this.#terminal;
  }

  /** Takes one data credit; false, and nothing taken, when there is none. */
  spendData(): boolean {
    if (this.#data === 0) return false;
    this.#data--;
    return true;
  }

  /** Takes the one terminal credit; false when it has been spent. */
  spendTerminal(): boolean {
    if (this.#terminal === 0) return false;
    this.#terminal = 0;
    return true;
  }

  /** Adds a grant of the receiver's; stays at the largest u32 rather than wrap. */
  grant(delta: number): void {
    this.#data = Math.min(U32_MAX, this.#data + delta);
  }
}

/** What the receiver of a slot has let in, holds and owes. Written by the ingress alone. */
export class IngressCredit {
  readonly #window: number;
  #data = 0;
  #terminal = 0;
  #terminalSeen = false;
  #ungranted = 0;

  /** `window` is the C that was advertised; the slot's buffer has to hold C + 1 records. */
  constructor(window: number) {
    this.#window = window;
  }

  /** Data records that the sender has spent and has not been granted again: held or ungranted. At most C. */
  get outstanding(): number {
    return this.#data + this.#ungranted;
  }

  /** Records held for the consumer, the terminal included. At most C + 1. */
  get buffered(): number {
    return this.#data + this.#terminal;
  }

  /** Credit of drained records that no grant has carried yet. */
  get ungranted(): number {
    return this.#ungranted;
  }

  /** Whether the sender, as far as is known here, has no data credit left. Such a sender may well be silent. */
  get exhausted(): boolean {
    return this.outstanding >= this.#window;
  }

  /** Lets one data record in; false, and nothing changed, when the sender has overspent. */
  admitData(): boolean {
    if (this.#data + this.#ungranted >= this.#window) return false;
    this.#data++;
    return true;
  }

  /** Lets the terminal in, once; false for a second one. */
  admitTerminal(): boolean {
    if (this.#terminalSeen) return false;
    this.#terminalSeen = true;
    this.#terminal = 1;
    return true;
  }

  /** The consumer took `n` data records. More than are held count as those held: credit is never made up. */
  drainData(n: number): void {
    const taken = Math.min(n, this.#data);
    this.#data -= taken;
    this.#ungranted += taken;
  }

  /** The consumer took the terminal, which returns no credit. */
  drainTerminal(): void {
    this.#terminal = 0;
  }

  /** Takes everything ungranted, to be sent as one grant; 0 when nothing is owed. */
  takeGrant(): number {
    const grant = this.#ungranted;
    this.#ungranted = 0;
    return grant;
  }
}

/** Bytes in use against a limit. */
export class ByteBudget {
  readonly limit: number;
  #used = 0;

  /** `limit` in bytes. */
  constructor(limit: number) {
    this.limit = limit;
  }

  /** Bytes in use. */
  get used(): number {
    return this.#used;
  }

  /** Whether the watermark is reached: grants are then withheld. */
  get full(): boolean {
    return this.#used >= this.limit;
  }

  /** Takes `n` bytes if they fit now; false, and nothing taken, otherwise. */
  reserve(n: number): boolean {
    if (this.#used + n > this.limit) return false;
    this.#used += n;
    return true;
  }

  /** Whether `n` bytes could fit once everything is released. A reservation that cannot is refused for good. */
  couldEverHold(n: number): boolean {
    return n <= this.limit;
  }

  /** Counts `n` bytes that are let in whatever the limit (in-sequence data, which the window bounds). */
  charge(n: number): void {
    this.#used += n;
  }

  /** Gives `n` bytes back; more than are in use count as those in use. */
  release(n: number): void {
    this.#used = Math.max(0, this.#used - n);
  }
}

/** Takes `n` bytes from a slot and from its peer, or from neither. */
export function reservePair(slot: ByteBudget, peer: ByteBudget, n: number): boolean {
  if (!slot.reserve(n)) return false;
  if (peer.reserve(n)) return true;
  slot.release(n);
  return false;
}

/** Gives `n` bytes back to a slot and to its peer; never more to the peer than the slot had. */
export function releasePair(slot: ByteBudget, peer: ByteBudget, n: number): void {
  const given = Math.min(n, slot.used);
  slot.release(given);
  peer.release(given);
}
