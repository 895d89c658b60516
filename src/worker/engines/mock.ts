/**
 * A mock LLM: no model, but the shape of one in time.
 *
 * A request's first token comes after the prefill time; from then on it is part of the decode batch, and every decode
 * step makes one token for each request in it, all emitted back to back in one synchronous run. There is one timer for
 * the steps and one for all prefills. Steps keep to a fixed grid, to within half a millisecond before it and a timer's
 * lateness after; a step that comes too late is skipped, never made up for in a burst.
 */
import type { Clock } from "../../clock.ts";
import { AimedTimer, type Pause } from "./aimed_timer.ts";
import type { Engine, EngineOutput, EngineRequest } from "./engine.ts";
import { sendApiError } from "./error_response.ts";
import { MockStream } from "./mock_stream.ts";
import { isRefused, parseMockRequest } from "./mock_request.ts";

/** Settings of the mock. Times in milliseconds, before they are divided by `speedupRatio`. */
export interface MockOptions {
  readonly clock: Clock;
  /** Prefill time. Default 50. */
  readonly ttftMs?: number;
  /** Time of one decode step. Default 20; 0 steps as often as the event loop comes round. */
  readonly itlMs?: number;
  /** Makes everything this many times faster. Default 1. */
  readonly speedupRatio?: number;
  /** Changes every text. Default 0. */
  readonly seed?: number;
  /** Tokens of a request that names no number. Default 64. */
  readonly defaultTokens?: number;
  /** Most tokens that a request may name. Default 1,000,000. */
  readonly maxTokens?: number;
  /** Least size of a token event in bytes, for benchmarks. Default 0: as it comes, about 180. */
  readonly eventBytes?: number;
  /** Lets decode steps keep their grid to a tenth of a millisecond. Default: as near as timers come. */
  readonly pause?: Pause;
  /** Called once behind every step that emitted something. */
  readonly onStep?: () => void;
  /** Source of `created`, Unix seconds. */
  readonly unixSeconds?: () => number;
}

/** Streams whose memory is fetched together, so that their cache misses overlap; the frontend's `FlushList` says more. */
const PREFETCH_STREAMS = 32;
const CLOSED = "The engine was closed";

/** {@linkcode Engine} that makes up its tokens. */
export class MockEngine implements Engine {
  readonly name = "mock";
  readonly #clock: Clock;
  readonly #options: MockOptions;
  readonly #ttftMs: number;
  readonly #itlMs: number;
  readonly #limits: { defaultTokens: number; maxTokens: number };
  readonly #unixSeconds: () => number;
  readonly #onRetired = () => void this.#running--;
  /** Waiting for their first token, in order of `dueAt`: everyone waits equally long. */
  readonly #prefill: MockStream[] = [];
  #prefillHead = 0;
  /** The decode batch. */
  readonly #batch: MockStream[] = [];
  #running = 0;
  /** When the next decode step is due; meaningless while the batch is empty. */
  #nextStep = 0;
  readonly #stepTimer: AimedTimer;
  /** Never pauses: that would hold up the steps, and prefill has no grid. */
  readonly #prefillTimer: AimedTimer;
  #closed = false;
  /** What prefetching came to; of no other use. */
  #prefetched = 0;

  constructor(options: MockOptions) {
    const speedup = options.speedupRatio ?? 1;
    this.#options = options;
    this.#clock = options.clock;
    this.#ttftMs = (options.ttftMs ?? 50) / speedup;
    this.#itlMs = (options.itlMs ?? 20) / speedup;
    this.#limits = { defaultTokens: options.defaultTokens ?? 64, maxTokens: options.maxTokens ?? 1_000_000 };
    this.#unixSeconds = options.unixSeconds ?? (() => Math.floor(Date.now() / 1000));
    this.#stepTimer = new AimedTimer(this.#clock, () => this.#onStepDue(), options.pause);
    this.#prefillTimer = new AimedTimer(this.#clock, () => this.#onPrefillDue());
  }

  get running(): number {
    return this.#running;
  }

  run(request: EngineRequest, output: EngineOutput): void {
    if (this.#closed) {
      const error = { message: "The engine is shutting down", type: "server_error", code: "unavailable" };
      return sendApiError(output, 503, error, "upstream_error");
    }
    if (output.signal.aborted) return;
    const parsed = parseMockRequest(request, this.#limits);
    if (isRefused(parsed)) return sendApiError(output, 400, parsed, "ok");
    const stream = new MockStream(parsed, request, output, {
      seed: this.#options.seed ?? 0,
      eventBytes: this.#options.eventBytes ?? 0,
      created: this.#unixSeconds(),
      dueAt: this.#clock.now() + this.#ttftMs,
      onRetired: this.#onRetired,
    });
    this.#running++;
    this.#prefill.push(stream);
    this.#aimPrefill();
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#stepTimer.aim(Infinity);
    this.#prefillTimer.aim(Infinity);
    const rest = [...this.#batch, ...this.#prefill.slice(this.#prefillHead)];
    this.#batch.length = 0;
    this.#prefill.length = 0;
    this.#prefillHead = 0;
    for (const stream of rest) stream.cut(CLOSED);
    return Promise.resolve();
  }

  #onStepDue(): void {
    const now = this.#clock.now();
    this.#nextStep += this.#itlMs;
    const late = now - this.#nextStep;
    // On the grid still: only whole steps are left out. Without a grid "now" is the next step.
    if (late >= 0) {
      this.#nextStep += this.#itlMs > 0 ? (Math.floor(late / this.#itlMs) + 1) * this.#itlMs : late;
    }
    // Aimed before the work, so that the work's time does not shift the timer.
    this.#stepTimer.aim(this.#nextStep);
    const emitted = this.#step() + this.#promote();
    if (this.#batch.length === 0) this.#stepTimer.aim(Infinity);
    if (emitted > 0) this.#options.onStep?.();
  }

  #onPrefillDue(): void {
    if (this.#promote() > 0) this.#options.onStep?.();
  }

  /** One token for everyone in the batch. Returns how many emitted. */
  #step(): number {
    const batch = this.#batch;
    let emitted = 0;
    let kept = 0;
    let fetched = 0;
    for (let i = 0; i < batch.length; i++) {
      if (i === fetched) {
        fetched = Math.min(batch.length, i + PREFETCH_STREAMS);
        let sum = 0;
        for (let ahead = i; ahead < fetched; ahead++) sum ^= batch[ahead]!.prefetch();
        this.#prefetched = sum;
      }
      const stream = batch[i]!;
      if (stream.emit()) emitted++;
      if (!stream.retired) batch[kept++] = stream;
    }
    batch.length = kept;
    return emitted;
  }

  /** First tokens of those whose prefill is over; they are part of the next step. Returns how many emitted. */
  #promote(): number {
    let emitted = 0;
    while (
      this.#prefillHead < this.#prefill.length &&
      this.#prefillTimer.isDue(this.#prefill[this.#prefillHead]!.dueAt)
    ) {
      const stream = this.#prefill[this.#prefillHead++]!;
      if (stream.emit()) emitted++;
      // In neither list while it emitted: a close from within has not seen it.
      if (this.#closed) stream.cut(CLOSED);
      if (stream.retired) continue;
      if (this.#batch.length === 0) {
        this.#nextStep = this.#clock.now() + this.#itlMs;
        this.#stepTimer.aim(this.#nextStep);
      }
      this.#batch.push(stream);
    }
    if (this.#prefillHead === this.#prefill.length || this.#prefillHead > 1_024) {
      this.#prefill.splice(0, this.#prefillHead);
      this.#prefillHead = 0;
    }
    this.#aimPrefill();
    return emitted;
  }

  #aimPrefill(): void {
    if (!this.#closed) this.#prefillTimer.aim(this.#prefill[this.#prefillHead]?.dueAt ?? Infinity);
  }
}
