/** Calls of this node that wait for an answer. Each ends exactly once: answered, refused, lost or timed out. */
import type { InstanceId } from "../../transports/contract.ts";
import type { Clock, TimerHandle } from "../clock.ts";
import { TokenplaneError, toTokenplaneError } from "../errors.ts";
import { ResponseArena } from "./response_ids.ts";

interface PendingCall {
  readonly peer: InstanceId;
  readonly lane: number;
  readonly decode: (payload: Uint8Array) => unknown;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: TokenplaneError) => void;
  readonly handler: string;
  readonly timeoutMs: number;
  /** By the clock. */
  readonly deadline: number;
}

/** A call that has begun: end it early with `fail`. */
export interface BegunCall {
  readonly answer: Promise<unknown>;
  fail(error: TokenplaneError): void;
}

/** What a call is about. */
export interface CallTarget {
  readonly peer: InstanceId;
  readonly lane: number;
  /** For messages only. */
  readonly handler: string;
  readonly timeoutMs: number;
  /** Makes the result of the answer's payload, which is valid only during this. A throw fails the call. */
  readonly decode: (payload: Uint8Array) => unknown;
}

const decoder = new TextDecoder();
const HANDLER_NOT_FOUND = /^Handler '.*' not found$/s;
const MAX_ERROR_TEXT_BYTES = 4_096;

/** See the head of this file. */
export class Calls {
  readonly arena: ResponseArena<PendingCall>;
  readonly #clock: Clock;
  /**
   * One for all calls, at the earliest deadline: nearly every call is answered long before its own. It is left alone when
   * no call waits any more: to set it anew for the next one costs more than to look once and find nothing due.
   */
  #timer: TimerHandle = null;
  #timerAt = Infinity;

  constructor(workerId: bigint, clock: Clock) {
    this.arena = new ResponseArena(workerId);
    this.#clock = clock;
  }

  /** Takes a slot and writes its response id to `header[at…]`. Throws `overloaded` when no slot is free. */
  begin(target: CallTarget, header: Uint8Array, at: number): BegunCall {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const call: PendingCall = {
      peer: target.peer,
      lane: target.lane,
      decode: target.decode,
      resolve,
      reject,
      handler: target.handler,
      timeoutMs: target.timeoutMs,
      deadline: this.#clock.now() + target.timeoutMs,
    };
    const slot = this.arena.acquire(call, header, at);
    if (slot < 0) throw new TokenplaneError("overloaded", "Cannot call: every response slot is taken");
    const fail = (error: TokenplaneError): void => {
      const found = this.arena.find(header, at);
      if (found?.value === call) this.#end(slot, call).reject(error);
    };
    this.#arm(call.deadline);
    return { answer: promise, fail };
  }

  /** An answer came for the id at `bytes[at…]`. False when nobody waits for it. */
  complete(bytes: Uint8Array, at: number, payload: Uint8Array): boolean {
    const found = this.arena.find(bytes, at);
    if (found === null) return false;
    const call = this.#end(found.slot, found.value);
    try {
      call.resolve(call.decode(payload));
    } catch (caught) {
      call.reject(toTokenplaneError(caught, "protocol"));
    }
    return true;
  }

  /** An error came for the id at `bytes[at…]`; `payload` is its text. False when nobody waits for it. */
  completeWithError(bytes: Uint8Array, at: number, payload: Uint8Array): boolean {
    const text = decoder.decode(payload.subarray(0, MAX_ERROR_TEXT_BYTES));
    return this.refuse(
      bytes,
      at,
      new TokenplaneError(HANDLER_NOT_FOUND.test(text) ? "handler_not_found" : "remote", text),
    );
  }

  /** Fails the call with the id at `bytes[at…]`. False when nobody waits for it. */
  refuse(bytes: Uint8Array, at: number, error: TokenplaneError): boolean {
    const found = this.arena.find(bytes, at);
    if (found === null) return false;
    this.#end(found.slot, found.value).reject(error);
    return true;
  }

  /** Fails the calls that went over a lane of a peer; with `lane` null over any. */
  failLane(peer: InstanceId, lane: number | null, error: TokenplaneError): void {
    if (this.arena.pending === 0) return;
    this.arena.forEach((call, slot) => {
      if (call.peer === peer && (lane === null || call.lane === lane)) this.#end(slot, call).reject(error);
    });
  }

  /** Fails everything. */
  failAll(error: TokenplaneError): void {
    this.arena.forEach((call, slot) => this.#end(slot, call).reject(error));
    this.#disarm();
  }

  #end(slot: number, call: PendingCall): PendingCall {
    this.arena.release(slot);
    return call;
  }

  #arm(deadline: number): void {
    if (deadline >= this.#timerAt) return;
    this.#disarm();
    this.#timerAt = deadline;
    this.#timer = this.#clock.setTimer(() => this.#onTimer(), Math.max(0, deadline - this.#clock.now()));
  }

  #disarm(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer);
    this.#timer = null;
    this.#timerAt = Infinity;
  }

  #onTimer(): void {
    this.#timer = null;
    this.#timerAt = Infinity;
    const now = this.#clock.now();
    let next = Infinity;
    this.arena.forEach((call, slot) => {
      if (call.deadline > now) {
        next = Math.min(next, call.deadline);
        return;
      }
      const text = `Cannot call "${call.handler}": no answer within ${Math.ceil(call.timeoutMs)} ms`;
      this.#end(slot, call).reject(new TokenplaneError("timeout", text));
    });
    this.#arm(next);
  }
}
