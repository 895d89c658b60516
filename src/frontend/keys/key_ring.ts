/** Gives each key its place in the shared memory, and keeps it there as long as the key is in use. One per process. */
import { TokenplaneError } from "../../errors.ts";
import { type KeyEntry, MAX_KEYS } from "./key_entry.ts";
import { type KeyMemory, PLACES } from "./key_memory.ts";

/** A key in use. */
export interface PlacedKey extends KeyEntry {
  /** Of its counts in a `KeyMemory`. */
  readonly place: number;
}

/** The keys in use, as plain data that can go to another isolate. */
export interface KeySet {
  /** There are no keys, and everyone is let in. */
  readonly isOpen: boolean;
  readonly keys: readonly PlacedKey[];
}

/** See above. */
export class KeyRing {
  readonly #memory: KeyMemory;
  readonly #placeOf = new Map<string, number>();
  /** Those that have been free for longest come first. */
  readonly #free: number[] = Array.from({ length: PLACES }, (_, place) => place);

  constructor(memory: KeyMemory) {
    this.#memory = memory;
  }

  /**
   * Takes over the keys that there are from now on; of two entries of one key the first counts. Throws `invalid_config`
   * when there are too many; then nothing has changed.
   *
   * @param isOpen what to do without any: let everyone in or nobody
   */
  replace(entries: readonly KeyEntry[], isOpen: boolean): KeySet {
    const wanted = new Map<string, KeyEntry>();
    for (const entry of entries) if (!wanted.has(entry.digest)) wanted.set(entry.digest, entry);
    const isNew = (digest: string) => !this.#placeOf.has(digest);
    const needed = [...wanted.keys()].filter(isNew).length;
    const free = this.#free.filter((place) => this.#memory.running(place) === 0);
    if (wanted.size > MAX_KEYS) throw tooMany(wanted.size, `allowed are ${MAX_KEYS}`);
    if (needed > free.length) throw tooMany(wanted.size, "requests of those taken out have still to end");
    for (const [digest, place] of this.#placeOf) {
      if (wanted.has(digest)) continue;
      this.#placeOf.delete(digest);
      this.#free.push(place);
    }
    for (const digest of wanted.keys()) {
      if (!isNew(digest)) continue;
      const place = free.shift()!;
      this.#free.splice(this.#free.indexOf(place), 1);
      this.#memory.clear(place);
      this.#placeOf.set(digest, place);
    }
    const keys = [...wanted.values()].map((entry) => ({ ...entry, place: this.#placeOf.get(entry.digest)! }));
    return { isOpen: isOpen && keys.length === 0, keys };
  }
}

function tooMany(count: number, why: string): TokenplaneError {
  return new TokenplaneError("invalid_config", `Cannot use ${count} API keys: ${why}`, { scope: "process" });
}
