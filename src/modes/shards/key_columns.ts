/** Which column of the key memory each shard's isolate counts in: one that no other, living or just dead, has. */
import type { KeyMemory } from "../../frontend/keys/key_memory.ts";
import { STOPPED_MS } from "./shard.ts";

/** See above. Two columns for each shard, used in turn. */
export class KeyColumns {
  readonly #memory: KeyMemory;
  readonly #taken: number[];
  readonly #timers = new Map<number, ReturnType<typeof setTimeout>>();

  constructor(memory: KeyMemory, shards: number) {
    this.#memory = memory;
    this.#taken = Array.from({ length: shards }, () => 0);
  }

  /** The column of a shard's next isolate. */
  next(index: number): number {
    const column = this.#columnOf(index, this.#taken[index]!++);
    // An isolate that died so lately that its successor has died too is over by now: starting one takes longer.
    if (this.#timers.has(column)) this.#forget(column);
    return column;
  }

  /** The latest isolate of a shard is dead: what it had under way is so as soon as none of its code can run. */
  release(index: number): void {
    const column = this.#columnOf(index, this.#taken[index]! - 1);
    this.#timers.set(column, setTimeout(() => this.#forget(column), STOPPED_MS));
  }

  close(): void {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  #columnOf(index: number, turn: number): number {
    return 2 * index + turn % 2;
  }

  #forget(column: number): void {
    clearTimeout(this.#timers.get(column));
    this.#timers.delete(column);
    this.#memory.forget(column);
  }
}
