/** Knows which keys are let in, and counts what each asks for. One per frontend; all of a process have the same keys. */
import { timingSafeEqual } from "node:crypto";
import { digestOf } from "./key_entry.ts";
import type { KeySet, PlacedKey } from "./key_ring.ts";

const BEARER = /^bearer +(\S+)$/i;

/** Counts of all keys of one name. */
export interface KeyCounts {
  /** Requests for completions that came with it. */
  requests: number;
  /** Of them, those refused by its limits. */
  readonly limited: { rate: number; concurrency: number };
}

/** A key that a request came with. */
export interface KnownKey extends PlacedKey {
  readonly counts: KeyCounts;
}

interface Held {
  readonly key: KnownKey;
  readonly digest: Uint8Array;
}

const encoder = new TextEncoder();

/** See above. */
export class KeyGuard {
  #isOpen = false;
  #keys = new Map<string, Held>();
  /** By name, in the order of the keys. */
  #counts = new Map<string, KeyCounts>();

  constructor(set: KeySet) {
    this.use(set);
  }

  /** Whether there are no keys, and everyone is let in. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  get keys(): KnownKey[] {
    return [...this.#keys.values()].map(({ key }) => key);
  }

  /** The counts of each name in use. */
  get counts(): ReadonlyMap<string, KeyCounts> {
    return this.#counts;
  }

  /** From the next request on these keys count and no others. A name that stays keeps its counts. */
  use({ isOpen, keys }: KeySet): void {
    const counts = new Map<string, KeyCounts>();
    this.#keys = new Map(keys.map((key) => {
      const known = counts.get(key.name) ?? this.#counts.get(key.name) ??
        { requests: 0, limited: { rate: 0, concurrency: 0 } };
      counts.set(key.name, known);
      return [key.digest, { key: { ...key, counts: known }, digest: encoder.encode(key.digest) }];
    }));
    this.#counts = counts;
    this.#isOpen = isOpen;
  }

  /** The key in an `authorization` header; null when it carries none of ours. */
  identify(authorization: string | undefined): KnownKey | null {
    const given = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
    if (given === undefined) return null;
    // Looked up by a digest that whoever guesses cannot choose: the time tells nothing of a key that was close.
    const digest = digestOf(given);
    const held = this.#keys.get(digest);
    return held !== undefined && timingSafeEqual(held.digest, encoder.encode(digest)) ? held.key : null;
  }

  /** Whether a request with this `authorization` header is let in. */
  admits(authorization: string | undefined): boolean {
    return this.#isOpen || this.identify(authorization) !== null;
  }
}
