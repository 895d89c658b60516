/**
 * The workers that have joined a frontend, what they serve, and how busy this frontend keeps them.
 *
 * | state | listed | gets requests | leaves by |
 * |---|---|---|---|
 * | ready | yes | yes | silence for three join intervals |
 * | lost | no | no | `lostGraceMs` after its connection was lost, unless it joins again |
 * | draining | no | no | its last stream's end, or silence |
 * | gone | – | no | – |
 */
import type { Clock, TimerHandle } from "../clock.ts";
import { type Logger, silentLogger } from "../observe/log.ts";
import type { InstanceId } from "../../transports/contract.ts";
import { workerIdOf } from "../messenger/worker_id.ts";
import { LoadBoard } from "./load_board.ts";
import { ModelIndex } from "./model_index.ts";
import { RecentModels } from "./recent_models.ts";
import { type ModelCard, Worker, type WorkerInfo, type WorkerState } from "./worker.ts";

/** Options of {@linkcode WorkerTable}. */
export interface WorkerTableOptions {
  readonly clock: Clock;
  readonly joinIntervalMs: number;
  readonly lostGraceMs: number;
  readonly maxWorkers: number;
  /** Where the load of all shards is counted. Default: one of its own. */
  readonly board?: LoadBoard;
  readonly log?: Logger;
  /** A worker is gone for good; called once per worker. */
  readonly onGone?: (worker: Worker) => void;
  /** Who is there, or what they serve, has changed; may be called when it has not. */
  readonly onChange?: () => void;
}

/** Different models of all workers together; each is in every list of models. */
export const MAX_MODEL_NAMES = 8_192;
/** Names that the log shows of one worker's models. */
const LOGGED_MODELS = 8;
/** Intervals of silence after which a worker is taken to be gone. */
const SILENT_INTERVALS = 3;

/** Who may get a request. */
export class WorkerTable {
  readonly board: LoadBoard;
  readonly #options: WorkerTableOptions;
  readonly #log: Logger;
  readonly #workers = new Map<InstanceId, Worker>();
  readonly #models = new ModelIndex();
  readonly #recent = new RecentModels(MAX_MODEL_NAMES);
  #timer: TimerHandle | null = null;
  /** When the timer is due, by the clock, in ms. */
  #wakeAtMs = Infinity;
  #isClosed = false;

  constructor(options: WorkerTableOptions) {
    this.#options = options;
    this.board = options.board ?? new LoadBoard(LoadBoard.allocate(options.maxWorkers, 1), 1, 0);
    this.#log = options.log ?? silentLogger;
  }

  /** Workers of any state but gone. */
  get size(): number {
    return this.#workers.size;
  }

  /** Whether any model is served. */
  get isServing(): boolean {
    return this.#models.served > 0;
  }

  /** Models that a ready worker serves, sorted by name. Not to be changed by the caller. */
  models(): readonly ModelCard[] {
    return this.#models.cards();
  }

  /** Ready workers of a model. Not to be changed by the caller. */
  serving(model: string): readonly Worker[] {
    return this.#models.ready(model);
  }

  /** Whether any worker has the model, even one that gets no requests now. */
  knows(model: string): boolean {
    return this.#models.has(model);
  }

  /** Whether the model's last worker stopped serving it a short while ago. */
  servedLately(model: string): boolean {
    return this.#recent.has(model, this.#options.clock.now());
  }

  worker(instanceId: InstanceId): Worker | undefined {
    return this.#workers.get(instanceId);
  }

  workers(): Iterable<Worker> {
    return this.#workers.values();
  }

  /** Takes a worker in, or hears from it again. Null when the table is full, of workers or of models, or closed. */
  join(info: WorkerInfo): Worker | null {
    const now = this.#options.clock.now();
    const known = this.#workers.get(info.instanceId);
    if (known !== undefined) {
      if (!isSameOffer(known.info, info)) {
        if (this.#isFullOfModels(info)) return null;
        const before = known.info;
        this.#models.drop(known);
        known.info = info;
        this.#models.add(known, known.state === "ready");
        if (known.state === "ready") this.#rememberUnserved(before);
        this.#options.onChange?.();
      }
      known.info = info;
      known.lastHeardMs = now;
      this.#enter(known, "ready");
      return known;
    }
    if (this.#isClosed || this.#workers.size >= this.#options.maxWorkers || this.#isFullOfModels(info)) {
      return null;
    }
    const worker = new Worker(info, now);
    const id = workerIdOf(info.instanceId);
    for (const virtual of worker.virtual) {
      virtual.row = this.board.enter(BigInt.asUintN(64, id + BigInt(virtual.index)));
    }
    this.#workers.set(info.instanceId, worker);
    const models = info.models.slice(0, LOGGED_MODELS).map((card) => card.id);
    if (info.models.length > models.length) models.push(`and ${info.models.length - models.length} more`);
    this.#log.info("worker_joined", { worker: info.instanceId, models });
    this.#models.add(worker, true);
    this.#options.onChange?.();
    this.#arm();
    return worker;
  }

  /** The worker wants no more requests; those it has go on. */
  markDraining(worker: Worker): void {
    if (worker.state === "gone") return;
    this.#log.info("worker_draining", { worker: worker.instanceId, in_flight: worker.inFlight });
    this.#enter(worker, "draining");
    this.#arm();
  }

  /** Its connection was lost: no requests until it joins again or is removed. */
  markLost(worker: Worker, reason: string): void {
    if (worker.state === "gone" || worker.state === "lost") return;
    worker.lostAtMs = this.#options.clock.now();
    // One that said that it leaves, and has nothing under way, is expected to close its connections.
    const isExpected = worker.state === "draining" && worker.inFlight === 0;
    const fields = { worker: worker.instanceId, reason };
    if (isExpected) this.#log.info("worker_disconnected", fields);
    else this.#log.warn("worker_lost", { ...fields, in_flight: worker.inFlight });
    this.#enter(worker, "lost");
    this.#arm();
  }

  /** A lost worker has answered. */
  markFound(worker: Worker): void {
    if (worker.state !== "lost") return;
    worker.lastHeardMs = this.#options.clock.now();
    this.#enter(worker, "ready");
  }

  /** Forgets a worker. */
  remove(worker: Worker, reason: string): void {
    if (worker.state === "gone") return;
    const wasReady = worker.state === "ready";
    this.#forget(worker);
    this.#workers.delete(worker.instanceId);
    this.#log.info("worker_left", { worker: worker.instanceId, reason });
    this.#models.drop(worker);
    if (wasReady) this.#rememberUnserved(worker.info);
    this.#options.onChange?.();
    this.#options.onGone?.(worker);
  }

  /** Forgets everyone, silently, and takes nobody in any more. */
  close(): void {
    this.#isClosed = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
    this.#timer = null;
    for (const worker of this.#workers.values()) this.#forget(worker);
    this.#workers.clear();
    this.#models.clear();
    this.#recent.clear();
  }

  #forget(worker: Worker): void {
    worker.state = "gone";
    for (const virtual of worker.virtual) {
      this.board.leave(virtual.row);
      virtual.row = -1;
    }
  }

  #enter(worker: Worker, state: WorkerState): void {
    if (worker.state === state) return;
    const wasReady = worker.state === "ready";
    worker.state = state;
    this.#models.mark(worker, state === "ready");
    if (wasReady) this.#rememberUnserved(worker.info);
    this.#options.onChange?.();
  }

  /** Those of an offer that nobody serves from now on. */
  #rememberUnserved(info: WorkerInfo): void {
    const now = this.#options.clock.now();
    for (const { id } of info.models) {
      if (this.#models.ready(id).length === 0) this.#recent.note(id, now);
    }
  }

  #isFullOfModels(info: WorkerInfo): boolean {
    return this.#models.size + this.#models.newAmong(info.models) > MAX_MODEL_NAMES;
  }

  /** One timer for all workers, for as long as there are any. */
  #arm(): void {
    const { clock, joinIntervalMs, lostGraceMs } = this.#options;
    if (this.#timer !== null) clock.clearTimer(this.#timer);
    this.#timer = null;
    if (this.#workers.size === 0) return;
    const now = clock.now();
    this.#forgive(now);
    let due = Infinity;
    for (const worker of this.#workers.values()) {
      due = Math.min(due, this.#deadlineOf(worker));
    }
    // Not more often than every 50 ms, however the deadlines lie, and once per interval for those that have drained.
    const wait = Math.min(joinIntervalMs, Math.max(due - now, Math.min(50, lostGraceMs), 1));
    this.#wakeAtMs = now + wait;
    this.#timer = clock.setTimer(() => {
      this.#timer = null;
      this.#forgive(clock.now());
      this.#sweep();
      this.#arm();
    }, wait);
  }

  /**
   * When this process itself stood still, its timers are due before anything is read: that silence was not the
   * workers'.
   */
  #forgive(now: number): void {
    const lateMs = now - this.#wakeAtMs;
    this.#wakeAtMs = Infinity;
    if (!(lateMs > this.#options.joinIntervalMs / 4)) return;
    for (const worker of this.#workers.values()) {
      worker.lastHeardMs = Math.min(now, worker.lastHeardMs + lateMs);
      worker.lostAtMs = Math.min(now, worker.lostAtMs + lateMs);
    }
  }

  #deadlineOf(worker: Worker): number {
    const { joinIntervalMs, lostGraceMs } = this.#options;
    if (worker.state === "lost") return worker.lostAtMs + lostGraceMs;
    // A draining worker may say nothing more, for as long as its streams run; the plane watches those.
    if (worker.state === "draining") return worker.inFlight === 0 ? 0 : Infinity;
    return worker.lastHeardMs + SILENT_INTERVALS * joinIntervalMs;
  }

  #sweep(): void {
    const now = this.#options.clock.now();
    for (const worker of [...this.#workers.values()]) {
      if (this.#deadlineOf(worker) > now) continue;
      const reason = worker.state === "lost"
        ? "its connection was lost"
        : worker.state === "draining"
        ? "it has drained"
        : `it was silent for ${SILENT_INTERVALS} join intervals`;
      this.remove(worker, reason);
    }
  }
}

function isSameOffer(a: WorkerInfo, b: WorkerInfo): boolean {
  return a.models.length === b.models.length &&
    a.models.every((card, index) => card.id === b.models[index]!.id);
}
