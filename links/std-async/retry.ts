import { delay } from "./delay.ts";

/** Options of {@linkcode retry}; times in milliseconds. */
export interface RetryOptions {
  /** Each wait is this many times the one before. Default 2. */
  multiplier?: number;
  /** Longest wait. Default 60000. */
  maxTimeout?: number;
  /** Calls before giving up. Default 5. */
  maxAttempts?: number;
  /** First wait. Default 1000. */
  minTimeout?: number;
  /** Share of each wait that is random, 0 to 1. Default 1. */
  jitter?: number;
  /** Ends the retries early. */
  signal?: AbortSignal;
}

/** Every attempt failed; `cause` is the last failure. */
export class RetryError extends Error {
  constructor(cause: unknown, attempts: number) {
    super(`Retrying exceeded the maxAttempts (${attempts}).`, { cause });
    this.name = "RetryError";
  }
}

/** Calls `fn` until it succeeds, with growing waits in between. */
export async function retry<T>(fn: () => Promise<T> | T, options: RetryOptions = {}): Promise<T> {
  const { multiplier = 2, maxTimeout = 60_000, maxAttempts = 5, minTimeout = 1_000, jitter = 1, signal } =
    options;
  for (let attempt = 1;; attempt++) {
    signal?.throwIfAborted();
    try {
      return await fn();
    } catch (caught) {
      if (attempt >= maxAttempts) throw new RetryError(caught, maxAttempts);
    }
    const wait = Math.min(maxTimeout, minTimeout * multiplier ** (attempt - 1));
    await delay(wait * (1 - jitter + jitter * Math.random()), signal === undefined ? {} : { signal });
  }
}
