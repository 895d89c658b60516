/**
 * Which workers offer which model. Kept up to date worker by worker: what one that comes or goes costs follows its own
 * offer, not everybody's.
 */
import type { ModelCard, Worker } from "./worker.ts";

interface Model {
  /** Everyone who offers it, ready or not, with the card of its own. */
  readonly offers: Map<Worker, ModelCard>;
  readonly ready: Worker[];
}

const NOBODY: readonly Worker[] = [];

/** Models by name. A worker is in it from `add` to `drop`, once. */
export class ModelIndex {
  readonly #models = new Map<string, Model>();
  /** Models that somebody ready offers. */
  #served = 0;
  #cards: ModelCard[] | null = null;

  /** Models that anyone offers, ready or not. */
  get size(): number {
    return this.#models.size;
  }

  /** Models that a ready worker offers. */
  get served(): number {
    return this.#served;
  }

  /** How many of `cards` nobody offers yet. */
  newAmong(cards: readonly ModelCard[]): number {
    let count = 0;
    for (const { id } of cards) if (!this.#models.has(id)) count++;
    return count;
  }

  has(model: string): boolean {
    return this.#models.has(model);
  }

  /** Not to be changed by the caller. */
  ready(model: string): readonly Worker[] {
    return this.#models.get(model)?.ready ?? NOBODY;
  }

  /** A card for each model that a ready worker offers, by name. Not to be changed by the caller. */
  cards(): readonly ModelCard[] {
    if (this.#cards !== null) return this.#cards;
    const cards: ModelCard[] = [];
    for (const { offers, ready } of this.#models.values()) {
      const first = ready[0];
      if (first !== undefined) cards.push(offers.get(first)!);
    }
    return this.#cards = cards.sort((a, b) => a.id < b.id ? -1 : 1);
  }

  /** Takes a worker's offer in; `isReady` as `mark` says it later. */
  add(worker: Worker, isReady: boolean): void {
    for (const card of worker.info.models) {
      let model = this.#models.get(card.id);
      if (model === undefined) this.#models.set(card.id, model = { offers: new Map(), ready: [] });
      model.offers.set(worker, card);
    }
    if (isReady) this.mark(worker, true);
  }

  /** A worker gets requests from now on, or none. */
  mark(worker: Worker, isReady: boolean): void {
    this.#cards = null;
    for (const { id } of worker.info.models) {
      const ready = this.#models.get(id)!.ready;
      const at = ready.indexOf(worker);
      if (isReady === at >= 0) continue;
      if (isReady) {
        if (ready.push(worker) === 1) this.#served++;
      } else {
        ready.splice(at, 1);
        if (ready.length === 0) this.#served--;
      }
    }
  }

  /** Forgets a worker's offer, which is still the one it was added with. */
  drop(worker: Worker): void {
    this.mark(worker, false);
    for (const { id } of worker.info.models) {
      const offers = this.#models.get(id)?.offers;
      offers?.delete(worker);
      if (offers?.size === 0) this.#models.delete(id);
    }
  }

  clear(): void {
    this.#models.clear();
    this.#served = 0;
    this.#cards = null;
  }
}
