/**
 * The ledgers of one slot's window, and byte budgets.
 *
 * The window C counts *data* records (heartbeats that cost credit and soft errors included). One more place is kept
 * for the terminal, so that a stream can always end. Open, close and credit records cost nothing and never wait.
 *
 * Conserved for every slot: owner's `data` + data records on the way + `outstanding` + grants on the way = C.
 */

const U32_MAX = 0xffff_ffff;

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
  // What every record touches comes first: see `IngressSlot`.
  #ungranted = 0;
  #data = 0;
  readonly #window: number;
  #terminal = 0;
  #terminalSeen = false;

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

  /** As `admitData` and `drainData(1)`: for a record that the consumer takes at once. */
  passData(): boolean {
    if (this.#data + this.#ungranted >= this.#window) return false;
    this.#ungranted++;
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

  /** Whether `n` bytes fit now. */
  fits(n: number): boolean {
    return this.#used + n <= this.limit;
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
