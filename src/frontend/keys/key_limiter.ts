/**
 * Holds each request for completions against the limits of its key, and says how much of them is left: in OpenAI's headers,
 * which are set on the response before anyone answers it, so that every answer has them.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../clock.ts";
import { TokenplaneError } from "../../errors.ts";
import type { KnownKey } from "./key_guard.ts";
import type { KeyMemory, Turn } from "./key_memory.ts";

/** See above. One per frontend. */
export class KeyLimiter {
  readonly #memory: KeyMemory;
  readonly #column: number;
  readonly #clock: Clock;
  readonly #epochMs: number;
  readonly #retryAfterSeconds: number;

  /**
   * @param column of this frontend in the memory
   * @param epochMs when the clock's zero was, in ms since the epoch: clocks of other isolates have other zeros
   * @param retryAfterSeconds for a client that has too many requests under way: nobody knows when one ends
   */
  constructor(memory: KeyMemory, column: number, clock: Clock, epochMs: number, retryAfterSeconds: number) {
    this.#memory = memory;
    this.#column = column;
    this.#clock = clock;
    this.#epochMs = epochMs;
    this.#retryAfterSeconds = retryAfterSeconds;
  }

  /** Requests of a key that this frontend has under way. */
  running(key: KnownKey): number {
    return this.#memory.runningIn(key.place, this.#column);
  }

  /** Counts a request and lets it pass, or returns why not (`rate_limited`) with the headers set. */
  admit(key: KnownKey, request: IncomingMessage, response: ServerResponse): TokenplaneError | null {
    const { counts, concurrent, place, rpm } = key;
    counts.requests++;
    if (!this.#memory.enter(place, this.#column, concurrent)) {
      counts.limited.concurrency++;
      response.setHeader("retry-after", `${this.#retryAfterSeconds}`);
      return refused(`Rate limit reached: this key may have ${concurrent} requests at one time.`);
    }
    const turn = rpm === 0 ? null : this.#memory.takeTurn(place, rpm, this.#nowNs());
    if (turn !== null) setHeaders(response, rpm, turn);
    if (turn?.isAllowed === false) {
      this.#memory.leave(place, this.#column);
      counts.limited.rate++;
      response.setHeader("retry-after", `${Math.ceil(turn.waitMs / 1_000)}`);
      response.setHeader("retry-after-ms", `${Math.ceil(turn.waitMs)}`);
      return refused(
        `Rate limit reached: this key may send ${rpm} requests per minute. Try again in ${
          duration(turn.waitMs)
        }.`,
      );
    }
    this.#leaveAtEnd(place, request, response);
    return null;
  }

  /** However it ends: a response that waits behind another on its connection says nothing when that closes. */
  #leaveAtEnd(place: number, request: IncomingMessage, response: ServerResponse): void {
    const queuedOn = response.socket === null ? request.socket : null;
    const leave = () => {
      response.off("close", leave);
      queuedOn?.off("close", leave);
      this.#memory.leave(place, this.#column);
    };
    response.on("close", leave);
    queuedOn?.on("close", leave);
  }

  #nowNs(): bigint {
    return BigInt(Math.round((this.#epochMs + this.#clock.now()) * 1_000)) * 1_000n;
  }
}

function setHeaders(response: ServerResponse, rpm: number, turn: Turn): void {
  response.setHeader("x-ratelimit-limit-requests", `${rpm}`);
  response.setHeader("x-ratelimit-remaining-requests", `${turn.remaining}`);
  response.setHeader("x-ratelimit-reset-requests", duration(turn.resetMs));
}

function refused(text: string): TokenplaneError {
  return new TokenplaneError("rate_limited", "Cannot take the request: its key is at its limit", {
    wire: text,
  });
}

/** A time as OpenAI writes it: `17ms`, `8.64s`, `1m0s`. Never less than it is. */
export function duration(ms: number): string {
  const whole = Math.ceil(ms);
  if (whole < 1_000) return `${whole}ms`;
  const minutes = Math.floor(whole / 60_000);
  const seconds = (whole - minutes * 60_000) / 1_000;
  return minutes === 0 ? `${seconds}s` : `${minutes}m${seconds}s`;
}
