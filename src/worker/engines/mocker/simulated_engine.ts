/**
 * A mock LLM that behaves like an inference engine under load: prompts take their time to compute, requests wait for room
 * in the KV cache, equal beginnings are computed once, and a full cache makes the newest request start over. One process
 * may hold many such GPUs (virtual workers).
 */
import type { Clock } from "../../../clock.ts";
import { promptOf } from "../../../routing/prompt/prompt_text.ts";
import type { Tokenizer } from "../../../routing/prompt/tokenizer.ts";
import { AimedTimer, type Pause } from "../aimed_timer.ts";
import type { Engine, EngineOutput, EngineRequest } from "../engine.ts";
import { sendApiError } from "../error_response.ts";
import { isRefused, type MockLimits, parseMockRequest } from "../mock_request.ts";
import { MockStream } from "../mock_stream.ts";
import { BlockManager, type CacheEvents } from "./block_manager.ts";
import { Scheduler, type SchedulerLimits } from "./scheduler.ts";
import { Sequence } from "./sequence.ts";
import { type SimulatedRequest, SimulatedWorker } from "./simulated_worker.ts";

/** Settings of the simulated engine. */
export interface SimulatedOptions extends SchedulerLimits {
  readonly clock: Clock;
  readonly tokenizer: Tokenizer;
  /** GPUs in this process. */
  readonly virtualWorkers: number;
  /** KV blocks of each, and tokens of one block. */
  readonly kvBlocks: number;
  readonly blockSize: number;
  /** Whether blocks of earlier prompts are used again. */
  readonly hasPrefixCaching: boolean;
  /** Makes passes this many times faster. */
  readonly speedupRatio: number;
  readonly limits: MockLimits;
  readonly seed: number;
  /** Least size of a token event, bytes. */
  readonly eventBytes: number;
  /** Lets passes end at their time to a tenth of a millisecond. */
  readonly pause?: Pause;
  /** Told of the caches, by virtual worker. */
  readonly cacheEvents?: (virtualWorker: number) => CacheEvents;
  readonly onStep?: () => void;
  /** Source of `created`, Unix seconds. */
  readonly unixSeconds?: () => number;
}

/** Own names of blocks start this far apart. */
const NAMES_PER_SEQUENCE = 0x100_0000;

/** {@linkcode Engine} around {@linkcode SimulatedWorker}s. */
export class SimulatedEngine implements Engine {
  readonly name = "mock";
  readonly workers: readonly SimulatedWorker[];
  readonly #options: SimulatedOptions;
  readonly #unixSeconds: () => number;
  #running = 0;
  #sequences = 0;
  #isClosed = false;

  constructor(options: SimulatedOptions) {
    this.#options = options;
    this.#unixSeconds = options.unixSeconds ?? (() => Math.floor(Date.now() / 1000));
    this.workers = Array.from({ length: options.virtualWorkers }, (_, index) => {
      const blocks = new BlockManager(options.kvBlocks, options.cacheEvents?.(index) ?? null);
      return new SimulatedWorker({
        blocks,
        scheduler: new Scheduler(blocks, options.blockSize, options),
        now: () => options.clock.now(),
        speedupRatio: options.speedupRatio,
        timer: (onDue) => new AimedTimer(options.clock, onDue, options.pause),
        onStep: options.onStep,
      });
    });
  }

  get virtualWorkers(): number {
    return this.workers.length;
  }

  get running(): number {
    return this.#running;
  }

  run(request: EngineRequest, output: EngineOutput): void {
    if (this.#isClosed) {
      const error = { message: "The engine is shutting down", type: "server_error", code: "unavailable" };
      return sendApiError(output, 503, error, "upstream_error");
    }
    if (output.signal.aborted) return;
    const parsed = parseMockRequest(request, this.#options.limits);
    if (isRefused(parsed)) return sendApiError(output, 400, parsed, "ok");
    const sequence = this.#sequenceOf(request);
    const worker = this.#workerOf(request);
    const total = sequence.promptTokens + parsed.tokens;
    if (!worker.scheduler.fits(total)) {
      const message = `The prompt and the answer together have ${total} tokens: the cache holds ${
        this.#options.kvBlocks * this.#options.blockSize
      }`;
      return sendApiError(output, 400, { message, type: "invalid_request_error" }, "ok");
    }
    const onRetired = () => {
      this.#running--;
      worker.remove(simulated);
    };
    const stream = new MockStream({ ...parsed, promptTokens: sequence.promptTokens }, request, output, {
      seed: this.#options.seed,
      eventBytes: this.#options.eventBytes,
      created: this.#unixSeconds(),
      dueAt: 0,
      onRetired,
    });
    const simulated: SimulatedRequest = { sequence, stream, tokenState: parsed.hash || 1 };
    this.#running++;
    worker.add(simulated);
  }

  close(): Promise<void> {
    this.#isClosed = true;
    for (const worker of this.workers) worker.close("The engine was closed");
    return Promise.resolve();
  }

  #sequenceOf(request: EngineRequest): Sequence {
    const { blockSize, hasPrefixCaching, tokenizer } = this.#options;
    // It was parsed a moment ago, and found to be an object.
    const fields = JSON.parse(new TextDecoder().decode(request.body));
    const prompt = promptOf(fields, request.path === "/v1/chat/completions");
    const tokens = tokenizer.encode(prompt ?? "");
    const ownNames = hasPrefixCaching ? null : ++this.#sequences * NAMES_PER_SEQUENCE;
    // A prompt of no token still has to be computed: engines put a token in front of every prompt.
    return new Sequence(tokens.length > 0 ? tokens : new Uint32Array(1), blockSize, ownNames);
  }

  /** The virtual worker that the frontend chose, else the one with the least to do. */
  #workerOf(request: EngineRequest): SimulatedWorker {
    const chosen = request.virtualWorker === undefined ? undefined : this.workers[request.virtualWorker];
    if (chosen !== undefined) return chosen;
    let least = this.workers[0]!;
    for (const worker of this.workers) if (worker.load < least.load) least = worker;
    return least;
  }
}
