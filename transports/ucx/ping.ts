/** Health probes: a random token goes out as message kind 5 and comes back as kind 6, little-endian in the header. */
import type { InstanceId } from "../contract.ts";
import { TokenplaneError } from "../../src/errors.ts";
import type { Clock, TimerHandle } from "../../src/clock.ts";

/** Bytes of a token. */
export const TOKEN_BYTES = 8;

interface Probe {
  readonly peer: InstanceId;
  readonly timer: TimerHandle;
  resolve(): void;
  reject(error: TokenplaneError): void;
}

/** Probes that wait for their answer. */
export class Pings {
  readonly #clock: Clock;
  readonly #waiting = new Map<bigint, Probe>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Probes without an answer. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Makes a token and the promise of its answer; rejects with `timeout` after `timeoutMs`. */
  begin(peer: InstanceId, timeoutMs: number): { token: Uint8Array<ArrayBuffer>; answer: Promise<void> } {
    const token = crypto.getRandomValues(new Uint8Array(TOKEN_BYTES));
    const key = tokenKey(token);
    const answer = new Promise<void>((resolve, reject) => {
      const timer = this.#clock.setTimer(() => {
        this.#waiting.delete(key);
        reject(new TokenplaneError("timeout", `Cannot reach peer "${peer}": no answer in ${timeoutMs} ms`));
      }, timeoutMs);
      this.#waiting.set(key, { peer, timer, resolve, reject });
    });
    return { token, answer };
  }

  /** Takes an answer. False when nobody waits for it: late, or made up by the peer. */
  handlePong(header: Uint8Array): boolean {
    if (header.length !== TOKEN_BYTES) return false;
    const key = tokenKey(header);
    const probe = this.#waiting.get(key);
    if (probe === undefined) return false;
    this.#waiting.delete(key);
    this.#clock.clearTimer(probe.timer);
    probe.resolve();
    return true;
  }

  /** Fails what waits for a peer, or for anyone. */
  fail(peer: InstanceId | null, error: TokenplaneError): void {
    for (const [key, probe] of this.#waiting) {
      if (peer !== null && probe.peer !== peer) continue;
      this.#waiting.delete(key);
      this.#clock.clearTimer(probe.timer);
      probe.reject(error);
    }
  }
}

function tokenKey(token: Uint8Array): bigint {
  return new DataView(token.buffer, token.byteOffset, TOKEN_BYTES).getBigUint64(0, true);
}
