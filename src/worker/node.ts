/** A worker: an engine behind a messenger and a plane, joined to frontends. */
import type { InstanceId } from "../../transports/contract.ts";
import type { Clock } from "../clock.ts";
import type { MessengerPort } from "../messenger/types.ts";
import { type Logger, silentLogger } from "../observe/log.ts";
import type { RequestLimits } from "../plane/request_message.ts";
import type { ResponsePlane } from "../plane/types.ts";
import type { ModelCard } from "../routing/worker.ts";
import type { Engine } from "./engines/engine.ts";
import { RequestHandler, type RequestStats } from "./handler.ts";
import { Join } from "./join.ts";
import { PeerPreparation } from "./peer_preparation.ts";

/** What {@linkcode WorkerNode} is made of. Messenger and plane must be running; the node closes them at its end. */
export interface WorkerNodeOptions {
  readonly messenger: MessengerPort;
  readonly plane: ResponsePlane;
  readonly engine: Engine;
  readonly clock: Clock;
  /** Node addresses of frontends, `host:port`. */
  readonly frontends: readonly string[];
  readonly models: readonly ModelCard[];
  /** Requests at one time; over it they are refused. */
  readonly maxRunning: number;
  readonly limits?: RequestLimits;
  readonly log?: Logger;
  /** Source of jitter for the joins; default `Math.random`. */
  readonly random?: () => number;
}

/** What a worker is doing. */
export interface WorkerStatus {
  readonly state: "created" | "serving" | "draining" | "closed";
  readonly engine: string;
  readonly models: readonly string[];
  readonly inFlight: number;
  readonly frontends: readonly { readonly address: string; readonly joined: boolean }[];
  readonly stats: RequestStats;
}

/** How often a drain looks whether everything is done, in ms. */
const DRAIN_POLL_MS = 10;
/** What tells frontends and writes out at the end may take, in ms. */
const LEAVE_TIMEOUT_MS = 1_000;
const SHUTDOWN_TIMEOUT_MS = 1_000;

/** Starts, drains and closes a worker. */
export class WorkerNode {
  readonly #options: WorkerNodeOptions;
  readonly #log: Logger;
  readonly #handler: RequestHandler;
  readonly #join: Join;
  #state: WorkerStatus["state"] = "created";
  #closing: Promise<void> | null = null;

  constructor(options: WorkerNodeOptions) {
    const { clock, engine, frontends, maxRunning, messenger, models } = options;
    const preparation = new PeerPreparation(messenger);
    const log = options.log ?? silentLogger;
    this.#options = options;
    this.#log = log;
    this.#handler = new RequestHandler({ ...options, preparation });
    this.#join = new Join({
      messenger,
      preparation,
      clock,
      frontends,
      models,
      engine: engine.name,
      capacity: maxRunning,
      virtualWorkers: engine.virtualWorkers ?? 1,
      log,
      ...(options.random === undefined ? {} : { random: options.random }),
    });
  }

  /** What the worker is doing now. */
  get status(): WorkerStatus {
    const { engine, models } = this.#options;
    return {
      state: this.#state,
      engine: engine.name,
      models: models.map(({ id }) => id),
      inFlight: this.#handler.inFlight,
      frontends: this.#join.frontends,
      stats: this.#handler.stats,
    };
  }

  /** Frontends that it is joined to now. */
  joinedFrontends(): Iterable<InstanceId> {
    return this.#join.joined();
  }

  /** Offers the models to the frontends, from now on and whenever one comes back. */
  start(): void {
    if (this.#state !== "created") return;
    this.#state = "serving";
    this.#join.start();
  }

  /**
   * Takes no more requests, tells the frontends so, and lets what runs finish for at most `timeoutMs`; then it is cut,
   * and its clients get an error. Resolves to whether all finished by itself. The node still has to be closed.
   */
  async drain(timeoutMs: number): Promise<boolean> {
    const { clock } = this.#options;
    const deadline = clock.now() + timeoutMs;
    if (this.#state !== "closed") this.#state = "draining";
    this.#handler.stopAccepting();
    await this.#join.leave(Math.min(timeoutMs, LEAVE_TIMEOUT_MS));
    this.#options.messenger.beginDrain();
    while (!this.#handler.isIdle && clock.now() < deadline) {
      await new Promise<void>((resolve) => clock.setTimer(resolve, DRAIN_POLL_MS));
    }
    if (this.#handler.isIdle) return true;
    this.#log.warn("drain_cut", { in_flight: this.#handler.inFlight });
    this.#handler.endAll("The worker is shutting down");
    return false;
  }

  /** Stops everything. Idempotent; later calls join the first. */
  close(): Promise<void> {
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    const { engine, messenger, plane } = this.#options;
    this.#state = "closed";
    this.#join.stop();
    this.#handler.stopAccepting();
    this.#handler.endAll("The worker is shutting down");
    await engine.close();
    plane.flushBatch();
    plane.close();
    await messenger.shutdown(SHUTDOWN_TIMEOUT_MS);
  }
}
