/**
 * Watches peers that UCX does not watch: over shared memory alone a dead peer is only a queue that nobody empties.
 *
 * A peer that has been silent is probed; one that stays silent for the timeout counts as failed. Anything that comes
 * from it, and any send that completes, is a sign of life. Costs nothing while UCX does the watching.
 */
import type { Clock, TimerHandle } from "../../src/clock.ts";
import type { Endpoint, Endpoints } from "./endpoints.ts";
import { UcsStatus } from "./status.ts";

/** Looks per timeout. */
const LOOKS = 10;

interface Silence {
  /** When the peer was last known alive, ms. */
  since: number;
  isProbed: boolean;
}

/** See the head of this file. */
export class Liveness {
  readonly #endpoints: Endpoints;
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #probe: (endpoint: Endpoint) => void;
  readonly #silences = new WeakMap<Endpoint, Silence>();
  #timer: TimerHandle | null = null;

  /** @param probe sends something that the peer answers */
  constructor(
    endpoints: Endpoints,
    clock: Clock,
    timeoutMs: number,
    probe: (endpoint: Endpoint) => void,
  ) {
    this.#endpoints = endpoints;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.#probe = probe;
  }

  /** Starts looking at intervals. */
  start(): void {
    this.#timer = this.#clock.setTimer(() => {
      this.look();
      this.start();
    }, this.#timeoutMs / LOOKS);
  }

  /** Stops looking. */
  stop(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer);
    this.#timer = null;
  }

  /** One look at every unwatched endpoint. */
  look(): void {
    const now = this.#clock.now();
    for (const endpoint of [...this.#endpoints.unwatched()]) {
      if (endpoint.failure !== 0) continue;
      const silence = this.#silences.get(endpoint);
      if (silence === undefined || endpoint.heard) {
        this.#silences.set(endpoint, { since: now, isProbed: false });
        endpoint.heard = false;
      } else if (now - silence.since >= this.#timeoutMs) {
        this.#endpoints.report(endpoint, UcsStatus.endpointTimeout);
      } else if (!silence.isProbed) {
        silence.isProbed = true;
        this.#probe(endpoint);
      }
    }
    this.#endpoints.settleAbandoned();
  }
}
