/**
 * Models that nobody serves any more but somebody did a short while ago: most often their worker restarts. A client that
 * is told so tries again; one that is told the model does not exist gives up.
 */

/** How long a model is remembered after its last worker stopped serving it, ms. */
export const REMEMBERED_MS = 300_000;

/** Names with the time at which they were last served; at most `maxNames`, the oldest are forgotten first. */
export class RecentModels {
  readonly #maxNames: number;
  /** Oldest first. */
  readonly #endedMs = new Map<string, number>();

  constructor(maxNames: number) {
    this.#maxNames = maxNames;
  }

  /** Names held, those that are too old included: nothing but room is lost by them. */
  get size(): number {
    return this.#endedMs.size;
  }

  /** The last worker of `model` stopped serving it at `now`, in ms. */
  note(model: string, now: number): void {
    this.#endedMs.delete(model);
    this.#endedMs.set(model, now);
    if (this.#endedMs.size <= this.#maxNames) return;
    for (const oldest of this.#endedMs.keys()) {
      this.#endedMs.delete(oldest);
      break;
    }
  }

  /** Whether `model` was served within the last five minutes before `now`, in ms. */
  has(model: string, now: number): boolean {
    const endedMs = this.#endedMs.get(model);
    if (endedMs === undefined) return false;
    if (now - endedMs < REMEMBERED_MS) return true;
    this.#endedMs.delete(model);
    return false;
  }

  clear(): void {
    this.#endedMs.clear();
  }
}
