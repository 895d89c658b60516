/**
 * Answers that go to a reply endpoint: pongs and refusals. They need no registered peer and pass no gate, so few of them
 * may be outstanding: what a peer does not take is dropped, and counted.
 */
import { OutstandingSends, type Sender } from "./send.ts";
import { UcsStatus } from "./status.ts";

/** Answers outstanding per reply endpoint. */
const MAX_PER_ENDPOINT = 8;
/** Reply endpoints with answers outstanding. */
const MAX_ENDPOINTS = 1_024;

const NO_PARTS: readonly Uint8Array[] = Object.freeze([]);

/** See the head of this file. */
export class Replies {
  readonly #sender: Sender;
  readonly #outstanding = new Map<bigint, OutstandingSends>();

  constructor(sender: Sender) {
    this.#sender = sender;
  }

  /** Endpoints with answers that UCX has not completed. */
  get pending(): number {
    return this.#outstanding.size;
  }

  /** Posts an answer. Call it only while the reply endpoint is live. False when it was dropped. */
  send(reply: bigint, kind: number, header: Uint8Array): boolean {
    const known = this.#outstanding.get(reply);
    if (known === undefined ? this.#outstanding.size >= MAX_ENDPOINTS : known.count >= MAX_PER_ENDPOINT) {
      return false;
    }
    const sends = known ?? new OutstandingSends();
    if (this.#sender.post(reply, kind, header, NO_PARTS, 0, sends) !== UcsStatus.ok) return false;
    if (known === undefined && sends.count > 0) this.#outstanding.set(reply, sends);
    return true;
  }

  /** Settles what has completed. Returns whether anything had. */
  reap(): boolean {
    if (this.#outstanding.size === 0) return false;
    let reaped = false;
    for (const [reply, sends] of this.#outstanding) {
      if (this.#sender.reap(sends) > 0) reaped = true;
      if (sends.count === 0) this.#outstanding.delete(reply);
    }
    return reaped;
  }

  /** Gives up on what is left. */
  abandon(): void {
    for (const sends of this.#outstanding.values()) this.#sender.abandon(sends);
  }
}
