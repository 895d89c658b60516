/**
 * The ordered admission gate in front of a bounded queue.
 *
 * Frames enter the queue in the order of their `send` calls, whether or not anyone waits for them. What finds the
 * queue full waits in the gate's own line; as long as anything waits there, a newcomer goes to its end, however much
 * room the queue has. The head leaves the line only once it is in the queue.
 */
import type { Admission } from "./contract.ts";
import { TokenplaneError } from "../src/errors.ts";

/** Names one waiting frame. */
export interface AdmissionTicket<T> {
  readonly item: T;
  /** Cleared when the frame is admitted, fails or is cancelled. */
  admission: Admission | null;
  state: "pending" | "admitted" | "failed";
}

/** Told of an exception out of somebody's callback: a bug that must not hurt the frames behind it. */
export type BugReport = (caught: unknown) => void;

/** One gate per ordered queue. `T` is what the queue takes. */
export class AdmissionGate<T> {
  readonly #tryPush: (item: T) => boolean;
  readonly #onBug: BugReport;
  /** Waiting tickets are `#line[#first…]`; what lies before has left. */
  #line: AdmissionTicket<T>[] = [];
  #first = 0;
  #pumping = false;

  /**
   * @param tryPush puts an item into the queue; false when it has no room now. Must not call back into the gate
   * @param onBug told when an admission callback throws
   */
  constructor(tryPush: (item: T) => boolean, onBug: BugReport = reportError) {
    this.#tryPush = tryPush;
    this.#onBug = onBug;
  }

  /** Frames that wait. */
  get waiting(): number {
    return this.#line.length - this.#first;
  }

  /** Null when the item went straight into the queue, else the ticket it waits under. */
  send(item: T, admission: Admission | null): AdmissionTicket<T> | null {
    if (this.waiting === 0 && this.#tryPush(item)) return null;
    return this.append(item, admission);
  }

  /** Lets an item wait at the end of the line. */
  append(item: T, admission: Admission | null): AdmissionTicket<T> {
    const ticket: AdmissionTicket<T> = { item, admission, state: "pending" };
    this.#line.push(ticket);
    return ticket;
  }

  /** The queue has room again: admits from the head on until it has none. */
  pump(): void {
    // An admission callback may end up here again; the outer loop goes on where that one would start.
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      for (let head = this.#line[this.#first]; head !== undefined; head = this.#line[this.#first]) {
        if (!this.#tryPush(head.item)) break;
        this.#dropHead();
        this.#settle(head, null);
      }
    } finally {
      this.#pumping = false;
    }
  }

  /** Takes a waiting frame out of the line; its admission fails with `cancelled`. False when it is too late. */
  cancel(ticket: AdmissionTicket<T>): boolean {
    if (ticket.state !== "pending") return false;
    const at = this.#line.indexOf(ticket, this.#first);
    if (at < 0) return false;
    if (at === this.#first) this.#dropHead();
    else this.#line.splice(at, 1);
    this.#settle(ticket, new TokenplaneError("cancelled", "Cannot admit frame: it was cancelled"));
    return true;
  }

  /** Fails everything that waits now. What callbacks send meanwhile waits in a new line. */
  failAll(error: TokenplaneError): void {
    const line = this.#line;
    const first = this.#first;
    this.#line = [];
    this.#first = 0;
    for (let i = first; i < line.length; i++) this.#settle(line[i]!, error);
  }

  #dropHead(): void {
    // Shifting an array of thousands per frame is quadratic: move an index and cut the array now and then.
    if (++this.#first >= 1_024 || this.#first === this.#line.length) {
      this.#line = this.#line.slice(this.#first);
      this.#first = 0;
    }
  }

  #settle(ticket: AdmissionTicket<T>, error: TokenplaneError | null): void {
    const admission = ticket.admission;
    ticket.admission = null;
    ticket.state = error === null ? "admitted" : "failed";
    if (admission === null) return;
    try {
      admission(error);
    } catch (caught) {
      this.#onBug(caught);
    }
  }
}
