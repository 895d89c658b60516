/**
 * Notices dead peers where UCX does not: over shared memory alone, where a dead peer is only a queue that nobody
 * empties; on a connection that came up to somebody else, on a port that the peer had before; and on one whose other end
 * was closed while the peer lives, which swallows what is sent.
 *
 * So a new endpoint has to connect within the dial time, and a silent peer is probed and has to answer. A peer that is
 * only slow must not be taken for dead: its answer waits behind what we sent before. So silence counts only while
 * nothing is outstanding, but over shared memory, where a completed send means that the peer has taken it.
 */
import type { Clock, TimerHandle } from "../../src/clock.ts";
import type { Endpoint, Endpoints } from "./endpoints.ts";
import { ErrorMode } from "./layouts.ts";
import { UcsStatus } from "./status.ts";

/** Looks per timeout. */
const LOOKS = 10;

/** Bounds, ms. */
export interface LivenessLimits {
  /** From the first send on a new endpoint to its completion. */
  dialTimeoutMs: number;
  /** Silence of a peer. */
  peerTimeoutMs: number;
}

interface Silence {
  /** When the peer was last known alive, or the endpoint first seen, ms. */
  since: number;
  isProbed: boolean;
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
    const { dialTimeoutMs, peerTimeoutMs } = this.#limits;
    const isWatched = endpoint.errorMode === ErrorMode.peer;
    const isBusy = endpoint.sends.count > 0;
    const silence = this.#silences.get(endpoint);
    if (silence === undefined || endpoint.heard || (isWatched && isBusy && endpoint.isProven)) {
      this.#silences.set(endpoint, { since: now, isProbed: false });
      endpoint.heard = false;
      return;
    }
    if (now - silence.since >= (endpoint.isProven ? peerTimeoutMs : dialTimeoutMs)) {
      this.#endpoints.report(endpoint, UcsStatus.endpointTimeout);
      this.#onFailure();
    } else if (!silence.isProbed) {
      silence.isProbed = true;
      this.#probe(endpoint);
    }
  }
}
