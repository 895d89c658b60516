/**
 * Who sends to us. Active messages come without a connection; what tells senders apart is the reply endpoint that a
 * message offers, which is our own endpoint to that peer as soon as there is one.
 *
 * A peer that offers none with some kinds shares one anonymous connection with others like it. The end of a connection
 * is known where the endpoint is ours: when it fails or is closed.
 */
import type { FrameSink, InboundConnection } from "../contract.ts";
import type { UcxStats } from "./options.ts";
import type { Endpoint, Endpoints } from "./endpoints.ts";

/** One sender. */
export class UcxInbound implements InboundConnection {
  readonly id: number;
  readonly remote: string;
  attachment: unknown = undefined;
  /** Our own endpoint to the sender, once there is one. */
  endpoint: Endpoint | undefined;
  isClosed = false;
  /** All senders come by one queue. */
  readonly caughtUpAt: () => number;
  readonly #onClose: (inbound: UcxInbound, reason: string) => void;

  constructor(
    id: number,
    remote: string,
    caughtUpAt: () => number,
    onClose: (inbound: UcxInbound, reason: string) => void,
  ) {
    this.id = id;
    this.remote = remote;
    this.caughtUpAt = caughtUpAt;
    this.#onClose = onClose;
  }

  close(reason: string): void {
    if (this.isClosed) return;
    this.#onClose(this, reason);
  }
}

/** All senders. */
export class InboundTable {
  readonly #sink: FrameSink;
  readonly #stats: UcxStats;
  readonly #endpoints: Endpoints;
  readonly #maximum: number;
  /** Drops our endpoint to a sender that broke the rules. */
  readonly #onMisbehaved: (endpoint: Endpoint) => void;
  readonly #caughtUpAt: () => number;
  readonly #byReply = new Map<bigint, UcxInbound>();
  #nextId = 1;
  /** The one looked up last: messages of one sender tend to come together. */
  #lastReply = 0n;
  #last: UcxInbound | null = null;

  constructor(
    sink: FrameSink,
    stats: UcxStats,
    endpoints: Endpoints,
    maximum: number,
    onMisbehaved: (endpoint: Endpoint) => void,
    caughtUpAt: () => number,
  ) {
    this.#sink = sink;
    this.#stats = stats;
    this.#endpoints = endpoints;
    this.#maximum = maximum;
    this.#onMisbehaved = onMisbehaved;
    this.#caughtUpAt = caughtUpAt;
  }

  /** The sender behind a reply endpoint; 0n for one that offered none. */
  of(reply: bigint): UcxInbound {
    if (this.#last !== null && this.#lastReply === reply) {
      this.#last.endpoint ??= this.#endpoints.byHandle(reply);
      return this.#last;
    }
    const key = this.#byReply.has(reply) || this.#byReply.size < this.#maximum ? reply : 0n;
    let inbound = this.#byReply.get(key);
    if (inbound === undefined) {
      const remote = key === 0n ? "ucx:anonymous" : `ucx:${key.toString(16)}`;
      const onClose = (closed: UcxInbound, why: string) => this.#close(key, closed, why);
      inbound = new UcxInbound(this.#nextId++, remote, this.#caughtUpAt, onClose);
      this.#byReply.set(key, inbound);
      this.#stats.connections++;
    }
    inbound.endpoint ??= this.#endpoints.byHandle(key);
    this.#lastReply = reply;
    this.#last = inbound;
    return inbound;
  }

  /** Our endpoint with this handle is gone, and so is what its peer sent on. */
  handleGone(handle: bigint, reason: string): void {
    const inbound = this.#byReply.get(handle);
    if (inbound === undefined) return;
    this.#forget(handle);
    if (inbound.isClosed) return;
    inbound.isClosed = true;
    this.#sink.onInboundClosed(inbound, reason);
  }

  /** The transport ends. */
  closeAll(reason: string): void {
    for (const handle of [...this.#byReply.keys()]) this.handleGone(handle, reason);
  }

  /** What it sends from now on is dropped, probes included, so that it notices when one goes unanswered. */
  #close(key: bigint, inbound: UcxInbound, reason: string): void {
    inbound.isClosed = true;
    const endpoint = this.#endpoints.byHandle(key);
    if (endpoint !== undefined) this.#onMisbehaved(endpoint);
    this.#sink.onInboundClosed(inbound, reason);
  }

  #forget(key: bigint): void {
    this.#byReply.delete(key);
    this.#stats.connections--;
    this.#last = null;
  }
}
