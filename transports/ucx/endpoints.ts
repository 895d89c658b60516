/**
 * Endpoints: one per peer that has been sent to, made on the first send.
 *
 * An endpoint that fails is only noted by UCX's callback; it is closed by the loop, with force, once, outside of any
 * callback and of progress. Its outstanding sends complete as cancelled after that. Where UCX watches nobody (error mode
 * "none": shared memory alone) an endpoint cannot be closed by force: it is abandoned with what UCX still holds, looked
 * at now and then, and goes with the worker at the latest.
 */
import type { InstanceId } from "../contract.ts";
import { CloseFlag, ErrorMode, Layout, RequestField } from "./layouts.ts";
import type { UcxLibrary } from "./library.ts";
import { structure } from "./memory.ts";
import { OutstandingSends, type Sender } from "./send.ts";
import { errorOfPointer, UcsStatus } from "./status.ts";
import { type ErrorCallback, errorCallback } from "./symbols.ts";
import { endpointParameters, type UcxWorker } from "./worker.ts";

/** One endpoint towards one incarnation of a peer. Written by {@linkcode Endpoints} alone, but for `heard`. */
export class Endpoint {
  readonly sends = new OutstandingSends();
  /** A sign of life of the peer since the last liveness check, which clears it. */
  heard = false;
  /** A send has completed or the peer was heard: the connection has been made. */
  isProven = false;
  /** Status with which it failed, or why we drop it; 0 while it is good. */
  failure = 0;
  /** Status that UCX reported; 0 while it reported none. */
  error = 0;
  /** Whether it is among the endpoints to be looked at each turn. */
  isBusy = false;
  /** The close request, 0n before and after. */
  closing = 0n;

  /** The flush request that precedes the close, 0n before and after. */
  flushing = 0n;
  readonly peer: InstanceId;
  readonly handle: bigint;
  readonly errorMode: number;
  /** Kept for as long as the endpoint: native code may read it while connecting. */
  readonly parameters: unknown;

  constructor(peer: InstanceId, handle: bigint, errorMode: number, parameters: unknown) {
    this.peer = peer;
    this.handle = handle;
    this.errorMode = errorMode;
    this.parameters = parameters;
  }

  /** Notes a sign of life. */
  hear(): void {
    this.heard = true;
    this.isProven = true;
  }
}

/** All endpoints of a worker. */
export class Endpoints {
  readonly #ucp: UcxLibrary["ucp"];
  readonly #worker: UcxWorker;
  readonly #sender: Sender;
  readonly #callback: ErrorCallback;
  readonly #byHandle = new Map<bigint, Endpoint>();
  /** Open ones with outstanding sends. */
  #busy: Endpoint[] = [];
  readonly #onGone: (endpoint: Endpoint) => void;
  /** Reported by the callback since the last look. */
  #reported: Endpoint[] = [];
  /** Closed, but UCX has not let go of everything. */
  #closing: Endpoint[] = [];
  /** Parameters of a flush and of a close after it. */
  readonly #plainRequest = structure(Layout.requestParams.size);
  readonly #forcedClose = structure(Layout.requestParams.size);
  /** Cannot be closed. */
  #abandoned: Endpoint[] = [];

  /** @param onGone an endpoint is being closed: its handle means nothing any more */
  constructor(library: UcxLibrary, worker: UcxWorker, sender: Sender, onGone: (endpoint: Endpoint) => void) {
    this.#onGone = onGone;
    this.#ucp = library.ucp;
    this.#worker = worker;
    this.#sender = sender;
    this.#forcedClose.view.setUint32(Layout.requestParams.mask, RequestField.flags, true);
    this.#forcedClose.view.setUint32(Layout.requestParams.flags, CloseFlag.force, true);
    this.#callback = errorCallback((_argument, handle, status) => {
      // Only recorded: closing from here, or progress, is what breaks UCX (requests complete twice).
      const endpoint = this.#byHandle.get(handle);
      if (endpoint === undefined) return;
      endpoint.error = status;
      this.report(endpoint, status);
    });
  }

  /** Endpoints that UCX has not let go of: closing or abandoned. */
  get lingering(): number {
    return this.#closing.length + this.#abandoned.length;
  }

  /** Endpoints being closed. */
  get closing(): number {
    return this.#closing.length;
  }

  /** The open endpoint with this handle, e.g. of a reply endpoint. */
  byHandle(handle: bigint): Endpoint | undefined {
    return this.#byHandle.get(handle);
  }

  /** Open endpoints. */
  all(): Iterable<Endpoint> {
    return this.#byHandle.values();
  }

  /** Makes an endpoint, or returns the negative status why not. */
  create(peer: InstanceId, address: Uint8Array<ArrayBuffer>): Endpoint | number {
    let status = this.#tryCreate(peer, address, this.#worker.errorMode);
    if (status === UcsStatus.unreachable && this.#worker.errorMode === ErrorMode.peer) {
      // A peer that offers shared memory alone: see chooseErrorMode.
      status = this.#tryCreate(peer, address, ErrorMode.none);
    }
    return status;
  }

  /** Notes that an endpoint is to be dropped by the loop. Several reports are one. */
  report(endpoint: Endpoint, status: number): void {
    if (endpoint.failure !== 0) return;
    endpoint.failure = status;
    this.#reported.push(endpoint);
  }

  /** Has an endpoint looked at each turn until its sends have completed. */
  watch(endpoint: Endpoint): void {
    if (endpoint.isBusy || endpoint.sends.count === 0) return;
    endpoint.isBusy = true;
    this.#busy.push(endpoint);
  }

  /** Settles completed sends of open endpoints, and tells for which. Returns whether there were any. */
  reap(onPermits: (endpoint: Endpoint) => void): boolean {
    if (this.#busy.length === 0) return false;
    const busy = this.#busy;
    this.#busy = [];
    let reaped = false;
    for (const endpoint of busy) {
      endpoint.isBusy = false;
      if (endpoint.closing !== 0n || !this.#byHandle.has(endpoint.handle)) continue;
      const completed = this.#sender.counts.completed;
      const count = this.#sender.reap(endpoint.sends);
      this.watch(endpoint);
      if (count === 0) continue;
      reaped = true;
      if (this.#sender.counts.completed > completed) {
        endpoint.isProven = true;
        // Elsewhere a completed send has only left this node.
        if (endpoint.errorMode === ErrorMode.none) endpoint.heard = true;
      }
      onPermits(endpoint);
    }
    return reaped;
  }

  /** Endpoints that failed since the last call. */
  takeReported(): readonly Endpoint[] {
    if (this.#reported.length === 0) return NONE;
    const reported = this.#reported;
    this.#reported = [];
    return reported;
  }

  /**
   * Closes an endpoint that has been reported. Never called from a callback.
   *
   * One that is good, but not wanted any more, is flushed first. Closed by force it would swallow what the peer sends us:
   * the peer's endpoint is tied to it and is not told. And UCX 1.13 aborts the process, this or the peer's, when a
   * connection is taken away by force while both sides are making it.
   */
  drop(endpoint: Endpoint): void {
    const { error, errorMode, failure, sends } = endpoint;
    const isSilent = failure === UcsStatus.endpointTimeout && sends.count === 0;
    const isGood = error === 0 && (failure === UcsStatus.canceled || isSilent);
    this.#close(endpoint, errorMode === ErrorMode.none || !isGood);
  }

  /** Looks after endpoints that are being closed. Returns whether one has gone. */
  settleClosing(): boolean {
    if (this.#closing.length === 0) return false;
    const before = this.#closing.length;
    this.#closing = this.#closing.filter((endpoint) => {
      this.#sender.reap(endpoint.sends);
      this.#settleFlush(endpoint);
      if (endpoint.closing !== 0n) {
        if (this.#ucp.ucp_request_check_status(endpoint.closing) === UcsStatus.inProgress) return true;
        this.#ucp.ucp_request_free(endpoint.closing);
        endpoint.closing = 0n;
      }
      return endpoint.sends.count > 0 || endpoint.flushing !== 0n;
    });
    return this.#closing.length < before;
  }

  /** Looks whether UCX has let go of abandoned endpoints after all: a peer that had only stalled. */
  settleAbandoned(): void {
    if (this.#abandoned.length === 0) return;
    const done: Endpoint[] = [];
    this.#abandoned = this.#abandoned.filter((endpoint) => {
      this.#sender.reap(endpoint.sends);
      if (endpoint.sends.count > 0) return true;
      done.push(endpoint);
      return false;
    });
    for (const endpoint of done) this.#startClose(endpoint, false);
  }

  /** Asks UCX to complete what every open endpoint has outstanding. */
  flushAll(): void {
    for (const endpoint of this.#byHandle.values()) {
      if (endpoint.failure !== 0 || endpoint.flushing !== 0n) continue;
      const request = this.#ucp.ucp_ep_flush_nbx(endpoint.handle, this.#plainRequest.bytes);
      if (errorOfPointer(request) === 0) endpoint.flushing = request;
    }
  }

  /** Looks after the flush of an endpoint. True when none is running. */
  #settleFlush(endpoint: Endpoint): boolean {
    if (endpoint.flushing === 0n) return true;
    if (this.#ucp.ucp_request_check_status(endpoint.flushing) === UcsStatus.inProgress) return false;
    this.#ucp.ucp_request_free(endpoint.flushing);
    endpoint.flushing = 0n;
    return true;
  }

  /** True when every open endpoint has been flushed. */
  allFlushed(): boolean {
    let done = true;
    for (const endpoint of this.#byHandle.values()) if (!this.#settleFlush(endpoint)) done = false;
    return done;
  }

  /** Starts to close every open endpoint: gracefully where everything has been flushed, else by force. */
  closeAll(): void {
    for (const endpoint of [...this.#byHandle.values()]) {
      const isFlushed = this.#settleFlush(endpoint) && endpoint.sends.count === 0 && endpoint.failure === 0;
      this.#close(endpoint, !isFlushed);
    }
  }

  /** Gives up on endpoints whose close does not end. */
  abandonClosing(): void {
    for (const endpoint of this.#closing) this.#sender.abandon(endpoint.sends);
    this.#abandoned.push(...this.#closing);
    this.#closing = [];
  }

  /** Releases the callback. The worker has been destroyed, or will never make progress again. */
  dispose(): void {
    this.#callback.close();
  }

  #tryCreate(peer: InstanceId, address: Uint8Array<ArrayBuffer>, errorMode: number): Endpoint | number {
    const callback = errorMode === ErrorMode.none
      ? 0n
      : BigInt(Deno.UnsafePointer.value(this.#callback.pointer));
    const parameters = endpointParameters(address, errorMode, callback);
    const out = new BigUint64Array(1);
    const status = this.#ucp.ucp_ep_create(this.#worker.worker, parameters.bytes, new Uint8Array(out.buffer));
    if (status !== UcsStatus.ok) return status;
    const endpoint = new Endpoint(peer, out[0]!, errorMode, parameters);
    this.#byHandle.set(endpoint.handle, endpoint);
    return endpoint;
  }

  #close(endpoint: Endpoint, force: boolean): void {
    if (!this.#byHandle.delete(endpoint.handle)) return;
    this.#onGone(endpoint);
    if (endpoint.errorMode === ErrorMode.none && endpoint.sends.count > 0 && force) {
      this.#sender.abandon(endpoint.sends);
      this.#abandoned.push(endpoint);
      return;
    }
    this.#startClose(endpoint, force && endpoint.errorMode === ErrorMode.peer);
  }

  #startClose(endpoint: Endpoint, force: boolean): void {
    const parameters = force ? this.#forcedClose : this.#plainRequest;
    const request = this.#ucp.ucp_ep_close_nbx(endpoint.handle, parameters.bytes);
    if (errorOfPointer(request) === 0) endpoint.closing = request;
    if (endpoint.closing !== 0n || endpoint.sends.count > 0) this.#closing.push(endpoint);
  }
}

const NONE: readonly Endpoint[] = Object.freeze([]);
