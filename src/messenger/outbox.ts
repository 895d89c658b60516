/** What leaves a node: one-way messages and calls, staged when they are too large for one frame. */
import { type Admission, type InstanceId, MessageType, type Transport } from "../../transports/contract.ts";
import { totalBytes } from "../../transports/stats.ts";
import type { TokenplaneError } from "../errors.ts";
import type { Calls } from "./calls.ts";
import { encodeRequestHeader, REQUEST_ID_AT, ResponseType } from "./envelope.ts";
import type { StagingStore } from "./staging.ts";

/** Header key that names a staged payload. */
export const STAGED_HEADER = "_rv";

/** Where a message goes. */
export interface Route {
  readonly instanceId: InstanceId;
  readonly transport: Transport;
}

/** One call. */
export interface CallRequest {
  readonly handler: string;
  readonly payload: Uint8Array;
  readonly responseType: ResponseType;
  readonly timeoutMs: number;
  /** Makes the result of the answer's payload, which is valid only during this. */
  readonly decode: (payload: Uint8Array) => unknown;
}

/** Calls and control messages go on this lane; only stream data is spread. */
const CONTROL_LANE = 0;
const NO_PARTS: readonly Uint8Array[] = [];
/** Header templates kept; handler names are ours, so there are few. */
const MAX_TEMPLATES = 1_024;

/** See the head of this file. */
export class Outbox {
  readonly calls: Calls;
  readonly staging: StagingStore;
  readonly stagingThreshold: number;
  /** Calls that did not leave. */
  sendErrors = 0;
  /** One-way header per handler, reused from message to message. */
  readonly #templates = new Map<string, Uint8Array<ArrayBuffer>>();

  constructor(calls: Calls, staging: StagingStore, stagingThreshold: number) {
    this.calls = calls;
    this.staging = staging;
    this.stagingThreshold = stagingThreshold;
  }

  /** Bytes of the envelope of a message to `handler` without headers. */
  envelopeBytes(handler: string): number {
    return this.#template(handler).length;
  }

  /** As `MessengerPort.sendOneWay`. */
  sendOneWay(
    to: Route,
    lane: number,
    handler: string,
    parts: readonly Uint8Array[],
    admission?: Admission,
  ): boolean {
    const bytes = totalBytes(parts);
    if (bytes > this.stagingThreshold) return this.#sendStaged(to, lane, handler, parts, bytes, admission);
    const header = this.#template(handler);
    this.calls.arena.stamp(header, REQUEST_ID_AT);
    if (to.transport.send(to.instanceId, lane, MessageType.message, header, parts, admission)) return true;
    // The transport may hold on to this header until the frame is admitted: the next message needs another.
    this.#templates.set(handler, header.slice());
    return false;
  }

  /** Calls a handler; rejects as `MessengerPort.requestJson` does. */
  call(to: Route, request: CallRequest): Promise<unknown> {
    const { payload } = request;
    try {
      if (payload.length <= this.stagingThreshold) return this.#call(to, request, [payload], null);
      const handle = this.staging.stage([payload], payload.length);
      return this.#callStaged(to, request, handle);
    } catch (caught) {
      return Promise.reject(caught);
    }
  }

  async #callStaged(to: Route, request: CallRequest, handle: string): Promise<unknown> {
    try {
      return await this.#call(to, request, NO_PARTS, handle);
    } finally {
      this.staging.unstage(handle);
    }
  }

  #call(
    to: Route,
    request: CallRequest,
    parts: readonly Uint8Array[],
    staged: string | null,
  ): Promise<unknown> {
    const { handler, responseType, timeoutMs, decode } = request;
    const headers = staged === null ? undefined : { [STAGED_HEADER]: staged };
    const header = encodeRequestHeader(responseType, handler, headers);
    const target = { peer: to.instanceId, lane: CONTROL_LANE, handler, timeoutMs, decode };
    const call = this.calls.begin(target, header, REQUEST_ID_AT);
    to.transport.send(to.instanceId, CONTROL_LANE, MessageType.message, header, parts, (error) => {
      if (error === null) return;
      this.sendErrors++;
      call.fail(error);
    });
    return call.answer;
  }

  #sendStaged(
    to: Route,
    lane: number,
    handler: string,
    parts: readonly Uint8Array[],
    bytes: number,
    admission: Admission | undefined,
  ): boolean {
    let handle: string;
    try {
      handle = this.staging.stage(parts, bytes, admission);
    } catch (caught) {
      queueMicrotask(() => admission?.(caught as TokenplaneError));
      return false;
    }
    const header = encodeRequestHeader(ResponseType.fireAndForget, handler, { [STAGED_HEADER]: handle });
    this.calls.arena.stamp(header, REQUEST_ID_AT);
    const isSent = to.transport.send(to.instanceId, lane, MessageType.message, header, NO_PARTS, (error) => {
      if (error !== null && this.staging.unstage(handle)) admission?.(error);
    });
    // The payload takes a way of its own: what is sent behind the message overtakes it until the peer has pulled it.
    return admission === undefined && isSent;
  }

  #template(handler: string): Uint8Array<ArrayBuffer> {
    let template = this.#templates.get(handler);
    if (template === undefined) {
      template = encodeRequestHeader(ResponseType.fireAndForget, handler);
      if (this.#templates.size < MAX_TEMPLATES) this.#templates.set(handler, template);
    }
    return template;
  }
}
