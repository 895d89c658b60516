/** API keys. */
import { createHash, timingSafeEqual } from "node:crypto";

const BEARER = /^bearer +(\S+)$/i;

/** Knows the keys that are let in. */
export class KeyGuard {
  // Digests have one length, so that a comparison tells nothing of a key's.
  readonly #digests: readonly Uint8Array[];

  constructor(keys: readonly string[]) {
    this.#digests = keys.map(digest);
  }

  /** Whether an `authorization` header carries one of the keys; always true when there are none. */
  admits(authorization: string | undefined): boolean {
    if (this.#digests.length === 0) return true;
    const key = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
    if (key === undefined) return false;
    const given = digest(key);
    let isKnown = false;
    // Every key is compared, so that the time does not tell which one was close.
    for (const known of this.#digests) isKnown = timingSafeEqual(known, given) || isKnown;
    return isKnown;
  }
}

function digest(key: string): Uint8Array {
  return createHash("sha256").update(key).digest();
}
