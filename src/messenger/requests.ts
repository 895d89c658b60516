/** Runs request handlers and sends their answers. */
import { MessageType, type MessageType as Type } from "../../transports/contract.ts";
import type { Clock } from "../clock.ts";
import { TokenplaneError, toTokenplaneError } from "../errors.ts";
import {
  decodeName,
  encodeAckHeader,
  encodeResponseHeader,
  REQUEST_ID_AT,
  type RequestHeader,
} from "./envelope.ts";
import { ResponseType } from "./envelope.ts";
import type { HandlerEntry, HandlerTable } from "./handlers.ts";
import { parseJson, stringifyJson } from "./json.ts";
import type { LaneState, OrderedLanes } from "./ordered_lanes.ts";
import { STAGED_HEADER } from "./outbox.ts";
import type { PeerTable } from "./peers.ts";
import type { MessageOrigin } from "./types.ts";

/** What a {@linkcode RequestRunner} needs of its owner. */
export interface RequestContext {
  readonly clock: Clock;
  readonly handlers: HandlerTable;
  readonly peers: PeerTable;
  readonly maxInFlight: number;
  lanes(): OrderedLanes;
  /** Fetches a staged payload from the sender. */
  fetchStaged(handle: string, origin: MessageOrigin): Promise<Uint8Array>;
  onHandlerFailed(entry: HandlerEntry, caught: unknown): void;
  /** A message or an answer came to nothing. `reason` is of a closed set. */
  onDropped(reason: string, caught?: unknown): void;
}

interface Pending {
  /** The 16 bytes of the response id. */
  readonly id: Uint8Array;
  readonly responseType: ResponseType;
  readonly origin: MessageOrigin;
}

const EMPTY = new Uint8Array(0);
/** What one sender may have of the room for requests: whoever takes it all must not be one peer alone. */
const SENDER_SHARE = 1 / 2;
/** The same for payloads to be pulled, which a sender that answers nothing keeps waiting. */
const STAGED_SHARE = 1 / 16;
const REPLY_LANE = 0;
/** Room that a reply's header takes of the largest frame. */
const REPLY_HEADER_BYTES = 19;
const encoder = new TextEncoder();

/** See the head of this file. */
export class RequestRunner {
  readonly #context: RequestContext;
  #inFlight = 0;
  /** The same by sender; who has none is not in it. */
  readonly #bySender = new Map<bigint, number>();
  #onIdle: (() => void)[] = [];

  constructor(context: RequestContext) {
    this.#context = context;
  }

  /** Requests whose answer is not out yet. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Resolves once nothing is in flight. */
  idle(): Promise<void> {
    if (this.#inFlight === 0) return Promise.resolve();
    return new Promise((resolve) => void this.#onIdle.push(resolve));
  }

  /** One request; the views are valid in the call only. Never throws. */
  handle(request: RequestHeader, header: Uint8Array, payload: Uint8Array, lane: LaneState): void {
    const pending: Pending = {
      id: header.slice(REQUEST_ID_AT, REQUEST_ID_AT + 16),
      responseType: request.responseType,
      origin: lane.origin,
    };
    let entry: HandlerEntry | null;
    try {
      entry = this.#context.handlers.find(request.name);
    } catch (caught) {
      return this.#context.onDropped("active_message", caught);
    }
    const mine = this.#begin(lane.origin.workerId);
    const { maxInFlight } = this.#context;
    const staged = request.headers?.[STAGED_HEADER];
    const share = Math.max(1, maxInFlight * (staged === undefined ? SENDER_SHARE : STAGED_SHARE));
    if (mine > 2 * share) {
      // Refusals wait for a sender that does not read them, too.
      this.#context.onDropped("overloaded");
      return this.#done(pending);
    }
    if (entry === null) {
      return this.#refuse(pending, `Handler '${decodeName(request.name)}' not found`, "unknown_handler");
    }
    if (this.#inFlight > maxInFlight || mine > share) {
      return this.#refuse(pending, "too many requests", "overloaded");
    }
    if (staged === undefined) return this.#run(entry, pending, payload);
    this.#context.fetchStaged(staged, lane.origin).then(
      (fetched) => this.#run(entry, pending, fetched),
      (caught) => this.#refuse(pending, `Cannot fetch payload: ${textOf(caught)}`, "staging", caught),
    );
  }

  /** Runs a handler. The request counts as in flight already. */
  #run(entry: HandlerEntry, pending: Pending, payload: Uint8Array): void {
    if (entry.oneWay !== null) {
      this.#context.lanes().call(entry, payload, pending.origin);
      return this.#answer(pending, false, EMPTY);
    }
    const { clock } = this.#context;
    const begun = clock.now();
    const { stats } = entry;
    const answered = stats.answered[pending.responseType]!;
    stats.requests[pending.responseType]!++;
    stats.requestBytes += payload.length;
    stats.inFlight++;
    answered.requestBytes += payload.length;
    const onResult = (body: Uint8Array): void => {
      stats.inFlight--;
      answered.observe(true, clock.now() - begun);
      answered.responseBytes += body.length;
      this.#answer(pending, false, body);
    };
    const onError = (caught: unknown): void => {
      stats.inFlight--;
      stats.failures++;
      answered.observe(false, clock.now() - begun);
      this.#context.onHandlerFailed(entry, caught);
      const text = encoder.encode(textOf(caught));
      answered.errorBytes += text.length;
      this.#answer(pending, true, text);
    };
    try {
      const result = invoke(entry, payload, pending.origin);
      if (result instanceof Promise) result.then(onResult, onError);
      else onResult(result);
    } catch (caught) {
      onError(caught);
    }
  }

  /** An error that is no handler's: always an ack, whatever was asked for. */
  #refuse(pending: Pending, text: string, reason: string, caught?: unknown): void {
    this.#context.onDropped(reason, caught);
    if (pending.responseType === ResponseType.fireAndForget) return this.#done(pending);
    this.#send(pending, MessageType.ack, encodeAckHeader(pending.id, 0, true), encoder.encode(text));
  }

  #answer(pending: Pending, isError: boolean, body: Uint8Array): void {
    if (pending.responseType === ResponseType.fireAndForget) return this.#done(pending);
    if (pending.responseType === ResponseType.ackNack) {
      return this.#send(
        pending,
        MessageType.ack,
        encodeAckHeader(pending.id, 0, isError),
        isError ? body : EMPTY,
      );
    }
    this.#send(pending, MessageType.response, encodeResponseHeader(pending.id, 0, isError), body);
  }

  #send(pending: Pending, type: Type, header: Uint8Array, body: Uint8Array): void {
    // Looked up only now: the handler may have registered the sender (that is how `_hello` can be answered).
    const peer = this.#context.peers.byWorkerId(pending.origin.workerId);
    if (peer === undefined) {
      this.#context.onDropped("unanswerable");
      return this.#done(pending);
    }
    const limit = peer.transport.maxFrameBytes(peer.instanceId) - REPLY_HEADER_BYTES;
    if (body.length > limit) {
      this.#context.onDropped("answer_too_large");
      const text = `The answer has ${body.length} bytes: the limit is ${limit}`;
      return this.#send(
        pending,
        MessageType.response,
        encodeResponseHeader(pending.id, 0, true),
        encoder.encode(text),
      );
    }
    const isAdmitted = peer.transport.send(peer.instanceId, REPLY_LANE, type, header, [body], (error) => {
      if (error !== null) this.#context.onDropped("answer_lost", error);
      this.#done(pending);
    });
    if (isAdmitted) this.#done(pending);
  }

  /** Counts a request in; returns how many its sender has now. */
  #begin(sender: bigint): number {
    const mine = (this.#bySender.get(sender) ?? 0) + 1;
    this.#bySender.set(sender, mine);
    this.#inFlight++;
    return mine;
  }

  #done({ origin }: Pending): void {
    const left = this.#bySender.get(origin.workerId)! - 1;
    if (left === 0) this.#bySender.delete(origin.workerId);
    else this.#bySender.set(origin.workerId, left);
    this.#inFlight--;
    if (this.#inFlight > 0) return;
    const waiting = this.#onIdle;
    this.#onIdle = [];
    for (const resolve of waiting) resolve();
  }
}

function invoke(
  entry: HandlerEntry,
  payload: Uint8Array,
  origin: MessageOrigin,
): Uint8Array | Promise<Uint8Array> {
  if (entry.bytes !== null) {
    const result = entry.bytes(payload, origin);
    return result instanceof Promise ? result.then((bytes) => bytes ?? EMPTY) : result ?? EMPTY;
  }
  const result = entry.json!(parseInput(payload), origin);
  return result instanceof Promise ? result.then(stringifyJson) : stringifyJson(result);
}

function parseInput(payload: Uint8Array): unknown {
  try {
    return parseJson(payload);
  } catch (caught) {
    const error = toTokenplaneError(caught);
    throw new TokenplaneError(error.code, `Failed to deserialize input: ${error.message}`, { cause: caught });
  }
}

/** What a peer is told of an error. */
function textOf(caught: unknown): string {
  const error = toTokenplaneError(caught);
  return error.wire ?? error.message;
}
