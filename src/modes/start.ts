/**
 * `tokenplane start`: a frontend and mock workers, these in isolates of their own, over real TCP lanes on loopback.
 */
import type { StartSettings } from "../config/schema/mod.ts";
import { TokenplaneError } from "../errors.ts";
import type { Logger } from "../observe/log.ts";
import type { RunningFrontend } from "./frontend.ts";
import type { IsolateCommand, IsolateEvent } from "./mock_worker_isolate.ts";
import { serveFrontend } from "./serve.ts";

/** How long the isolates may take to start and to join, ms. */
const START_TIMEOUT_MS = 20_000;
/** How long they may take to close, ms; then they are cut off. */
const CLOSE_TIMEOUT_MS = 3_000;

/** Starts everything and waits until each worker has joined. Nothing is left running when it throws. */
export async function startAllInOne(settings: StartSettings, log: Logger): Promise<RunningFrontend> {
  const loopback = { nodeListen: { host: "127.0.0.1", port: 0 }, advertiseHost: null };
  const frontend = await serveFrontend(settings, loopback, log);
  const isolates: WorkerIsolate[] = [];
  const close = async () => {
    // The workers first: they would report the frontend's end as a loss.
    await Promise.all(isolates.map((isolate) => isolate.close()));
    await frontend.close();
  };
  try {
    for (let index = 0; index < settings.workers; index++) {
      isolates.push(new WorkerIsolate(settings, frontend, index, log));
    }
    await Promise.all(isolates.map((isolate) => isolate.joined));
  } catch (caught) {
    await close();
    throw caught;
  }
  return {
    http: frontend.http,
    node: frontend.node,
    shards: frontend.shards,
    workers: () => frontend.workers(),
    drain: (timeoutMs) => frontend.drain(timeoutMs),
    close,
  };
}

/** One worker in an isolate. */
class WorkerIsolate {
  /** Resolves when the worker has joined; rejects when it cannot. */
  readonly joined: Promise<void>;
  readonly #worker: Worker;
  readonly #closed = Promise.withResolvers<void>();
  #isLoaded = false;

  constructor(settings: StartSettings, frontend: RunningFrontend, index: number, log: Logger) {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.joined = promise;
    this.#worker = new Worker(new URL("./mock_worker_isolate.ts", import.meta.url).href, {
      type: "module",
      name: `worker-${index}`,
    });
    const timer = setTimeout(
      () => reject(new TokenplaneError("timeout", `Cannot start worker ${index}: it did not join in time`)),
      START_TIMEOUT_MS,
    );
    this.#worker.onmessage = ({ data }: MessageEvent<IsolateEvent>) => {
      switch (data.kind) {
        case "loaded": {
          this.#isLoaded = true;
          // The keys are for clients; the isolate has no use for them.
          const { apiKeys: _, ...withoutKeys } = settings;
          const { node, shards } = frontend;
          return this.#post({ kind: "start", settings: withoutKeys, frontend: node, index, shards });
        }
        case "closed":
          return this.#closed.resolve();
        case "joined":
          clearTimeout(timer);
          return resolve();
        case "failed":
          clearTimeout(timer);
          return reject(new TokenplaneError("internal", `Cannot start worker ${index}: ${data.message}`));
      }
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      clearTimeout(timer);
      this.#closed.resolve();
      log.error("worker_isolate_failed", { worker: index, error: event.message });
      reject(new TokenplaneError("internal", `Cannot start worker ${index}: ${event.message}`));
    };
  }

  async close(): Promise<void> {
    this.joined.catch(() => {}); // already told, or no longer of interest
    if (this.#isLoaded) this.#post({ kind: "close" });
    else this.#closed.resolve();
    const timer = setTimeout(() => this.#closed.resolve(), CLOSE_TIMEOUT_MS);
    await this.#closed.promise;
    clearTimeout(timer);
    this.#worker.terminate();
  }

  #post(command: IsolateCommand): void {
    this.#worker.postMessage(command);
  }
}
