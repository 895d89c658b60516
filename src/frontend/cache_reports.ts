/** Takes workers' reports of their caches, and asks for the whole when something was missed. */
import { toTokenplaneError } from "../errors.ts";
import type { MessengerPort } from "../messenger/types.ts";
import type { Logger } from "../observe/log.ts";
import { KV_EVENTS_HANDLER, KV_SNAPSHOT_HANDLER, readEventsHeader } from "../routing/kv/cache_events.ts";
import type { ReportedCaches } from "../routing/kv/reported_caches.ts";
import type { VirtualWorker, Worker } from "../routing/worker.ts";
import type { WorkerTable } from "../routing/worker_table.ts";

/** What {@linkcode CacheReports} needs. */
export interface CacheReportsContext {
  readonly messenger: MessengerPort;
  readonly table: WorkerTable;
  readonly caches: ReportedCaches;
  readonly log: Logger;
}

/** A large cache travels in chunks; meanwhile the worker counts as having nothing. */
const SNAPSHOT_TIMEOUT_MS = 10_000;

/** See the head of this file. Registers its handler. */
export class CacheReports {
  readonly #context: CacheReportsContext;
  /** Those of whom a snapshot is on its way. */
  readonly #asked = new Set<VirtualWorker>();
  /** Those that have said that they report nothing. */
  readonly #mute = new WeakSet<VirtualWorker>();

  constructor(context: CacheReportsContext) {
    this.#context = context;
    context.messenger.handleOneWay(KV_EVENTS_HANDLER, (payload, { peer }) => {
      const worker = peer === null ? undefined : context.table.worker(peer.instanceId);
      if (worker !== undefined) this.#handle(worker, payload);
    });
  }

  /** A worker can be asked: what does it have by now, if that is not known? */
  onConnected(worker: Worker): void {
    for (const virtual of worker.virtual) {
      if (!this.#context.caches.has(virtual) && !this.#mute.has(virtual)) this.#ask(virtual);
    }
  }

  #handle(worker: Worker, payload: Uint8Array): void {
    try {
      const virtual = worker.virtual[readEventsHeader(payload).virtualWorker];
      if (virtual !== undefined && this.#context.caches.handle(virtual, payload)) this.#ask(virtual);
    } catch (caught) {
      this.#context.log.debug("cache_report_refused", { worker: worker.instanceId, error: caught });
    }
  }

  #ask(virtual: VirtualWorker): void {
    if (this.#asked.has(virtual)) return;
    this.#asked.add(virtual);
    const { caches, log, messenger } = this.#context;
    const { worker, index } = virtual;
    const payload = Uint8Array.of(index & 0xff, index >> 8);
    messenger.requestBytes(worker.instanceId, KV_SNAPSHOT_HANDLER, payload, SNAPSHOT_TIMEOUT_MS)
      .finally(() => this.#asked.delete(virtual))
      .then((snapshot) => {
        if (worker.state !== "gone") caches.handle(virtual, snapshot);
      })
      .catch((caught: unknown) => {
        const error = toTokenplaneError(caught);
        if (error.code === "handler_not_found") this.#mute.add(virtual);
        else log.debug("cache_snapshot_failed", { worker: virtual.name, error });
      });
  }
}
