/**
 * Notices dead peers where UCX does not.
 *
 * UCX watches a peer once it is connected, but not over shared memory alone, where a dead peer is only a queue that
 * nobody empties; and a connection that came up to somebody else, on a port that the peer had before, stays silent for
 * ever. So a new endpoint has to show a sign of life within the dial time, and one that UCX does not watch has to go on
 * doing so: it is probed when it has been silent. Anything that comes from the peer, and any send that completes, is a
 * sign of life.
 */
import type { Clock, TimerHandle } from "../../src/clock.ts";
import type { Endpoint, Endpoints } from "./endpoints.ts";
import { ErrorMode } from "./layouts.ts";
import { UcsStatus } from "./status.ts";

/** Looks per timeout. */
const LOOKS = 10;

/** Bounds, ms. */
export interface LivenessLimits {
  /** From the first send on a new endpoint to a sign of life. */
  dialTimeoutMs: number;
  /** Silence of an endpoint that UCX does not watch. */
  peerTimeoutMs: number;
}

interface Silence {
  /** When the peer was last known alive, or the endpoint first seen, ms. */
  since: number;
  isProbed: boolean;
  wasHeard: boolean;
}

/** See the head of this file. */
export class Liveness {
  readonly #endpoints: Endpoints;
  readonly #clock: Clock;
  readonly #limits: LivenessLimits;
  readonly #probe: (endpoint: Endpoint) => void;
  readonly #onFailure: () => void;
  readonly #silences = new WeakMap<Endpoint, Silence>();
  #timer: TimerHandle | null = null;

  /**
   * @param probe sends something that the peer answers
   * @param onFailure an endpoint has been reported
   */
  constructor(
    endpoints: Endpoints,
    clock: Clock,
    limits: LivenessLimits,
    probe: (endpoint: Endpoint) => void,
    onFailure: () => void,
  ) {
    this.#endpoints = endpoints;
    this.#clock = clock;
    this.#limits = limits;
    this.#probe = probe;
    this.#onFailure = onFailure;
  }

  /** Starts looking at intervals. */
  start(): void {
    const { dialTimeoutMs, peerTimeoutMs } = this.#limits;
    this.#timer = this.#clock.setTimer(() => {
      this.look();
      this.start();
    }, Math.min(dialTimeoutMs, peerTimeoutMs) / LOOKS);
  }

  /** Stops looking. */
  stop(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer);
    this.#timer = null;
  }

  /** One look at every endpoint. */
  look(): void {
    const now = this.#clock.now();
    for (const endpoint of [...this.#endpoints.all()]) {
      if (endpoint.failure === 0) this.#lookAt(endpoint, now);
    }
    this.#endpoints.settleAbandoned();
  }

  #lookAt(endpoint: Endpoint, now: number): void {
    const silence = this.#silences.get(endpoint);
    if (silence === undefined || endpoint.heard) {
      this.#silences.set(endpoint, { since: now, isProbed: false, wasHeard: endpoint.heard });
      endpoint.heard = false;
      return;
    }
    const isWatched = endpoint.errorMode === ErrorMode.peer;
    if (isWatched && (silence.wasHeard || endpoint.sends.count === 0)) return;
    const { dialTimeoutMs, peerTimeoutMs } = this.#limits;
    const isLate = now - silence.since >= (silence.wasHeard ? peerTimeoutMs : dialTimeoutMs);
    if (isLate) {
      this.#endpoints.report(endpoint, UcsStatus.endpointTimeout);
      this.#onFailure();
    } else if (!isWatched && !silence.isProbed) {
      silence.isProbed = true;
      this.#probe(endpoint);
    }
  }
}
