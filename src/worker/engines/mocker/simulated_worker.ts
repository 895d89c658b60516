/**
 * One simulated GPU: its cache, its scheduler, and the clock of its forward passes.
 *
 * A pass is planned, takes its time, and then emits the tokens of all requests that took part, back to back in one
 * synchronous run. What comes in meanwhile waits for the next pass.
 */
import type { AimedTimer } from "../aimed_timer.ts";
import { nextState } from "../mock_vocabulary.ts";
import type { MockStream } from "../mock_stream.ts";
import type { BlockManager } from "./block_manager.ts";
import type { Pass, Scheduled, Scheduler } from "./scheduler.ts";
import type { Sequence } from "./sequence.ts";

/** A request in the simulated GPU. */
export interface SimulatedRequest extends Scheduled {
  readonly sequence: Sequence;
  readonly stream: MockStream;
  /** Of a generator that makes the ids of its tokens. */
  tokenState: number;
}

/** What a {@linkcode SimulatedWorker} is made of. */
export interface SimulatedWorkerParts {
  readonly blocks: BlockManager;
  readonly scheduler: Scheduler<SimulatedRequest>;
  readonly now: () => number;
  readonly speedupRatio: number;
  /** @returns a timer that calls `onDue` */
  readonly timer: (onDue: () => void) => AimedTimer;
  /** Called once behind every pass that emitted something. */
  readonly onStep: (() => void) | undefined;
}

/** See the head of this file. */
export class SimulatedWorker {
  readonly blocks: BlockManager;
  readonly scheduler: Scheduler<SimulatedRequest>;
  readonly #parts: SimulatedWorkerParts;
  readonly #timer: AimedTimer;
  readonly #requests = new Set<SimulatedRequest>();
  /** The pass under way. */
  #pass: Pass<SimulatedRequest> | null = null;
  #endsAt = 0;
  #isClosed = false;

  constructor(parts: SimulatedWorkerParts) {
    this.blocks = parts.blocks;
    this.scheduler = parts.scheduler;
    this.#parts = parts;
    this.#timer = parts.timer(() => this.#onPassOver());
  }

  /** Requests that wait or run. */
  get load(): number {
    return this.#requests.size;
  }

  add(request: SimulatedRequest): void {
    this.#requests.add(request);
    this.scheduler.add(request);
    if (this.#pass === null) this.#begin(this.#parts.now());
  }

  /** Ends everything, with an error for each client. */
  close(why: string): void {
    this.#isClosed = true;
    this.#timer.aim(Infinity);
    for (const { stream } of this.#requests) stream.cut(why);
    this.#requests.clear();
  }

  /** Nobody wants a request any more; unknown ones are ignored. */
  remove(request: SimulatedRequest): void {
    this.#requests.delete(request);
    this.scheduler.remove(request);
  }

  #begin(now: number): void {
    this.#pass = this.scheduler.plan();
    if (this.#pass === null) return;
    this.#endsAt = now + this.#pass.durationMs / this.#parts.speedupRatio;
    this.#timer.aim(this.#endsAt);
  }

  #onPassOver(): void {
    const pass = this.#pass;
    if (pass === null || this.#isClosed) return;
    let emitted = 0;
    for (const request of pass.making) {
      const { sequence, stream } = request;
      // Removed or preempted while the pass was under way.
      if (stream.retired || sequence.pending > 0) continue;
      const isHeldBack = stream.isBlocked;
      if (stream.emit()) emitted++;
      if (this.#isClosed) return;
      if (stream.retired) {
        this.remove(request);
      } else if (!isHeldBack) {
        request.tokenState = nextState(request.tokenState);
        sequence.append(request.tokenState >>> 24);
      }
    }
    // Passes follow each other without a gap; what timers are late by is not added up, except over a whole pass.
    this.#begin(Math.max(this.#endsAt, this.#parts.now() - pass.durationMs / this.#parts.speedupRatio));
    if (emitted > 0) this.#parts.onStep?.();
  }
}
