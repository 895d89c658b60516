/** A shard's side of `/metrics`: asks the supervisor for the page of the whole process. */
import type { MetricsPage } from "../../observe/metrics.ts";

/** For the supervisor, which itself waits less long for the other shards, ms. */
const PAGE_TIMEOUT_MS = 2_000;

/** Pages asked for. */
export class Scrapes {
  readonly #ask: (id: number) => void;
  readonly #fallback: () => Promise<MetricsPage>;
  readonly #waiting = new Map<number, (page: MetricsPage) => void>();
  #nextId = 0;
  #asked: Promise<MetricsPage> | null = null;

  /** @param fallback the page of this shard alone, for when there is no answer */
  constructor(ask: (id: number) => void, fallback: () => Promise<MetricsPage>) {
    this.#ask = ask;
    this.#fallback = fallback;
  }

  /** One page for all who ask while it is on its way. */
  page(): Promise<MetricsPage> {
    this.#asked ??= this.#request().finally(() => this.#asked = null);
    return this.#asked;
  }

  /** The supervisor has answered. */
  handlePage(id: number, page: MetricsPage): void {
    this.#waiting.get(id)?.(page);
  }

  async #request(): Promise<MetricsPage> {
    const id = this.#nextId++;
    const { promise, resolve } = Promise.withResolvers<MetricsPage | null>();
    this.#waiting.set(id, resolve);
    const timer = setTimeout(() => resolve(null), PAGE_TIMEOUT_MS);
    try {
      this.#ask(id);
      return await promise ?? await this.#fallback();
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(id);
    }
  }
}
