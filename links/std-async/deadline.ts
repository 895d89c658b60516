/** Options of {@linkcode deadline}. */
export interface DeadlineOptions {
  /** Gives up early, with the signal's reason. */
  signal?: AbortSignal;
}

/** Settles as `p` does, unless `ms` milliseconds pass first: then it rejects with a `TimeoutError` DOMException. */
export async function deadline<T>(p: Promise<T>, ms: number, options: DeadlineOptions = {}): Promise<T> {
  const { signal } = options;
  const { promise: gaveUp, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal?.reason);
  if (signal?.aborted) onAbort();
  signal?.addEventListener("abort", onAbort, { once: true });
  // setTimeout turns anything above 31 bits into "at once"; no end at all is what an endless deadline means.
  const timer = ms > 0x7fff_ffff
    ? undefined
    : setTimeout(() => reject(new DOMException("Signal timed out.", "TimeoutError")), ms);
  try {
    return await Promise.race([p, gaveUp]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}
