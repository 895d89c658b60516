/** Gathers `/metrics` from all shards: one collection at a time, bounded in time, for all who ask meanwhile. */
import type { Logger } from "../../observe/log.ts";
import { type Collectors, mergedPage, type MetricsPage, type Series } from "../../observe/metrics.ts";

/** How long a shard may take to answer, ms. */
const COLLECT_TIMEOUT_MS = 1_000;

/** A shard that can be asked. */
export interface Asked {
  readonly index: number;
  readonly isAccepting: boolean;
  send(command: { readonly kind: "collect"; readonly id: number }): void;
}

/** Options of {@linkcode Collection}. */
export interface CollectionOptions {
  /** Series of the process as such. */
  readonly own: Collectors;
  /** Shards that there should be. */
  readonly count: number;
  /** Those that there are. */
  readonly shards: () => readonly Asked[];
  readonly log: Logger;
  /** In ms. */
  readonly timeoutMs?: number;
}

/** See above. A shard that does not answer is left out and named: in the log, and by `tokenplane_shard_up`. */
export class Collection {
  readonly #options: CollectionOptions;
  /** By index, whether the shard answered last. */
  readonly #up: number[];
  #id = 0;
  #page: Promise<MetricsPage> | null = null;
  /** Those that have not answered, with what takes their answer. */
  #missing: Map<Asked, (series: Series[] | null) => void> = new Map();

  constructor(options: CollectionOptions) {
    this.#options = options;
    this.#up = new Array(options.count).fill(0);
    options.own.add("tokenplane_shard_up", "Whether a shard answered this scrape.", "gauge", (emit) => {
      this.#up.forEach((up, shard) => emit(up, { shard: String(shard) }));
    });
  }

  /** The page of the whole process. */
  page(): Promise<MetricsPage> {
    this.#page ??= this.#collect().finally(() => this.#page = null);
    return this.#page;
  }

  /** A shard has answered; too late an answer is ignored. */
  handle(shard: Asked, id: number, series: Series[]): void {
    if (id === this.#id) this.#missing.get(shard)?.(series);
  }

  /** A shard is dead: it will not answer. */
  forget(shard: Asked): void {
    this.#missing.get(shard)?.(null);
  }

  async #collect(): Promise<MetricsPage> {
    const { own, shards, log, timeoutMs = COLLECT_TIMEOUT_MS } = this.#options;
    const id = ++this.#id;
    const missing = this.#missing = new Map();
    const answers = shards().map((shard) => {
      if (!shard.isAccepting) return Promise.resolve({ shard, series: null });
      return new Promise<{ shard: Asked; series: Series[] | null }>((resolve) => {
        missing.set(shard, (series: Series[] | null) => resolve({ shard, series }));
        shard.send({ kind: "collect", id });
      });
    });
    const timer = setTimeout(() => {
      for (const answer of missing.values()) answer(null);
    }, timeoutMs);
    const gathered: Series[][] = [];
    this.#up.fill(0);
    for (const { shard, series } of await Promise.all(answers)) {
      if (series !== null) {
        this.#up[shard.index] = 1;
        gathered.push(series);
      } else log.warn("shard_silent", { shard: shard.index, timeout_ms: timeoutMs });
    }
    clearTimeout(timer);
    this.#missing = new Map();
    return await mergedPage([await own.series(), ...gathered]);
  }
}
