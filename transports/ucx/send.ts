/**
 * Posts active messages and settles each exactly once.
 *
 * `ucp_am_send_nbx` has three exits. Null: done, nothing more will happen. An error: nothing was taken. A request: UCX
 * keeps reading header and data until the request has completed. No completion callback is set: a callback costs a
 * crossing into this isolate per message, while the state of the oldest request of an endpoint, looked at once per turn
 * of the progress loop, tells the same. Which exit is taken varies with size, transport and version.
 *
 * The header is not copied by UCX (1.13 cannot): it lies in the same owned buffer as the data.
 */
import { AM_ID_BASE } from "./kinds.ts";
import { Layout, RequestField, SendFlag } from "./layouts.ts";
import type { UcxLibrary } from "./library.ts";
import { type NativeMemory, type Slot, type Structure, structure } from "./memory.ts";
import { errorOfPointer, UcsStatus } from "./status.ts";

/** How sends have settled. `posted` is the sum of the others and of what is outstanding. */
export interface SendCounts {
  posted: number;
  /** Done within the call. */
  inline: number;
  /** Refused within the call. */
  refused: number;
  completed: number;
  /** Completed with an error, by the transport or because the endpoint was closed by force. */
  failed: number;
  /** Given up: the peer is gone and UCX has no way to cancel (shared memory alone). */
  abandoned: number;
}

/** The sends of one endpoint that UCX has not completed, oldest first. Written by {@linkcode Sender} alone. */
export class OutstandingSends {
  readonly requests: bigint[] = [];
  readonly slots: Slot[] = [];
  readonly sizes: number[] = [];
  /** Index of the oldest. */
  first = 0;
  /** Header and payload bytes of all. */
  bytes = 0;
  /** Set when the sends have been counted as abandoned. */
  isAbandoned = false;

  /** Number of sends. */
  get count(): number {
    return this.requests.length - this.first;
  }
}

/** Posts and reaps. One per transport. */
export class Sender {
  readonly counts: SendCounts = { posted: 0, inline: 0, refused: 0, completed: 0, failed: 0, abandoned: 0 };
  readonly #ucp: UcxLibrary["ucp"];
  readonly #memory: NativeMemory;
  readonly #parameters: Structure;
  #outstanding = 0;

  constructor(library: UcxLibrary, memory: NativeMemory) {
    this.#ucp = library.ucp;
    this.#memory = memory;
    this.#parameters = sendParameters();
  }

  /** Requests that UCX has not completed, over all endpoints. */
  get outstanding(): number {
    return this.#outstanding;
  }

  /**
   * Copies and posts one message. Returns 0 when it is on its way (then it is in `outstanding`, unless done at once),
   * else the negative status with which it was refused.
   */
  post(
    endpoint: bigint,
    kind: number,
    header: Uint8Array,
    parts: readonly Uint8Array[],
    payloadBytes: number,
    outstanding: OutstandingSends,
  ): number {
    const size = header.length + payloadBytes;
    const slot = this.#memory.take(size);
    const target = slot.bytes;
    target.set(header, 0);
    let at = header.length;
    for (let i = 0; i < parts.length; i++) {
      const part = parts[i]!;
      target.set(part, at);
      at += part.length;
    }
    this.counts.posted++;
    const result = this.#ucp.ucp_am_send_nbx(
      endpoint,
      AM_ID_BASE + kind,
      slot.address,
      BigInt(header.length),
      slot.address + BigInt(header.length),
      BigInt(payloadBytes),
      this.#parameters.address,
    );
    if (result === 0n) {
      this.counts.inline++;
      this.#memory.give(slot);
      return UcsStatus.ok;
    }
    const error = errorOfPointer(result);
    if (error !== 0) {
      this.counts.refused++;
      this.#memory.give(slot);
      return error;
    }
    outstanding.requests.push(result);
    outstanding.slots.push(slot);
    outstanding.sizes.push(size);
    outstanding.bytes += size;
    this.#outstanding++;
    return UcsStatus.ok;
  }

  /** Settles what has completed, from the oldest on. Returns how many that were. */
  reap(outstanding: OutstandingSends): number {
    const { requests, slots, sizes } = outstanding;
    let reaped = 0;
    while (outstanding.first < requests.length) {
      const at = outstanding.first;
      const request = requests[at]!;
      const status = this.#ucp.ucp_request_check_status(request);
      if (status === UcsStatus.inProgress) break;
      this.#ucp.ucp_request_free(request);
      this.#memory.give(slots[at]!);
      outstanding.bytes -= sizes[at]!;
      outstanding.first++;
      this.#outstanding--;
      reaped++;
      if (outstanding.isAbandoned) continue;
      if (status === UcsStatus.ok) this.counts.completed++;
      else this.counts.failed++;
    }
    if (outstanding.first === requests.length) {
      requests.length =
        slots.length =
        sizes.length =
        outstanding.first =
          0;
    } else if (outstanding.first >= 256) {
      requests.splice(0, outstanding.first);
      slots.splice(0, outstanding.first);
      sizes.splice(0, outstanding.first);
      outstanding.first = 0;
    }
    return reaped;
  }

  /** Counts the sends as settled although UCX still owns their buffers, which stay taken until it lets go. */
  abandon(outstanding: OutstandingSends): void {
    if (outstanding.isAbandoned) return;
    outstanding.isAbandoned = true;
    this.counts.abandoned += outstanding.count;
  }
}

/** Every kind carries the reply endpoint: for the answer, and because nothing else tells the receiver who sends. */
function sendParameters(): Structure {
  const parameters = structure(Layout.requestParams.size);
  parameters.view.setUint32(Layout.requestParams.mask, RequestField.flags, true);
  parameters.view.setUint32(Layout.requestParams.flags, SendFlag.eager | SendFlag.reply, true);
  return parameters;
}
