/** What is known of an API key: its digest, a name and limits. The key itself is kept nowhere. */
import { createHash } from "node:crypto";

/** How much one key may ask for; 0: no limit. */
export interface KeyLimits {
  /** Requests per minute, on average; as many at once after a pause. */
  readonly rpm: number;
  /** Requests at one time. */
  readonly concurrent: number;
}

/** One key. */
export interface KeyEntry extends KeyLimits {
  /** SHA-256 of the key, in hexadecimal. */
  readonly digest: string;
  /** What it is called in logs and metrics. */
  readonly name: string;
}

/** Keys in use at one time. Each name is a label value. */
export const MAX_KEYS = 1_024;
/** Highest limits; a key with more needs none. */
export const MAX_RPM = 1_000_000;
export const MAX_CONCURRENT = 1_048_576;

const ID_DOMAIN = "tokenplane key id\n";

/** The digest by which a key is known. */
export function digestOf(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

/** An entry for a key; without a name it is called by an id, the same at each start. */
export function entryFor(key: string, limits: KeyLimits, name: string | null = null): KeyEntry {
  return { digest: digestOf(key), name: name ?? idOf(key), rpm: limits.rpm, concurrent: limits.concurrent };
}

/** Part of a digest of its own: it is no part of the key, nor of the digest that requests are compared with. */
function idOf(key: string): string {
  return `key-${digestOf(`${ID_DOMAIN}${key}`).slice(0, 8)}`;
}
