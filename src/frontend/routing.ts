/** How a frontend routes: the policy that its settings name, with what that policy knows. */
import type { Clock } from "../clock.ts";
import type { MessengerPort } from "../messenger/types.ts";
import type { Logger } from "../observe/log.ts";
import { ApproximateCaches } from "../routing/kv/approximate_caches.ts";
import type { BlockHashes } from "../routing/kv/block_hashes.ts";
import { CombinedCaches } from "../routing/kv/combined_caches.ts";
import { ReportedCaches } from "../routing/kv/reported_caches.ts";
import { createPolicy } from "../routing/policies/mod.ts";
import { PromptHasher } from "../routing/prompt/prompt_hasher.ts";
import { byteTokenizer } from "../routing/prompt/tokenizer.ts";
import { Router } from "../routing/router.ts";
import type { Worker } from "../routing/worker.ts";
import type { WorkerTable } from "../routing/worker_table.ts";
import { CacheReports } from "./cache_reports.ts";
import type { FrontendOptions } from "./options.ts";

/** What a {@linkcode Routing} is made with. */
export interface RoutingContext {
  readonly options: FrontendOptions;
  readonly table: WorkerTable;
  readonly messenger: MessengerPort;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Workers and their logical workers that one shard keeps caches of. */
const MAX_CACHES = 65_536;

/** See the head of this file. Workers' comings and goings have to be told. */
export class Routing {
  readonly router: Router;
  /** Null unless prompts matter. */
  readonly caches: CombinedCaches | null = null;
  readonly #hasher: PromptHasher | null = null;
  readonly #reports: CacheReports | null = null;

  constructor({ options, table, messenger, clock, log }: RoutingContext) {
    const { routerMode, routerMaxBlocks, routerTtlSecs, kvBlockSize } = options;
    const limits = { maxBlocks: routerMaxBlocks, maxWorkers: MAX_CACHES, maxWorkerBlocks: routerMaxBlocks };
    const caches = new CombinedCaches(
      new ReportedCaches(limits),
      new ApproximateCaches(clock, 1_000 * routerTtlSecs, limits),
    );
    if (routerMode === "kv") {
      this.caches = caches;
      this.#hasher = new PromptHasher(byteTokenizer, kvBlockSize);
      this.#reports = new CacheReports({ messenger, table, caches: caches.reported, log });
    }
    const weights = {
      overlapCredit: options.routerKvOverlapCredit,
      prefillLoadScale: options.routerPrefillLoadScale,
      temperature: options.routerTemperature,
    };
    this.router = new Router(table, createPolicy(routerMode, { board: table.board, caches, weights }));
  }

  /** Names of a prompt's blocks; null when the policy does not ask for them, or there is no prompt to read. */
  blocksOf(fields: Readonly<Record<string, unknown>>, isChat: boolean): BlockHashes | null {
    return this.#hasher === null ? null : this.#hasher.hash(fields, isChat);
  }

  /** A worker can be asked. */
  onConnected(worker: Worker): void {
    this.#reports?.onConnected(worker);
  }

  /** A worker has gone for good. */
  onGone(worker: Worker): void {
    for (const virtual of worker.virtual) this.caches?.forget(virtual);
  }
}
