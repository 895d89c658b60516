import { setTimeout as wait } from "node:timers/promises";

/** Options of {@linkcode delay}. */
export interface DelayOptions {
  /** Ends the wait early; the promise then rejects with the signal's reason. */
  signal?: AbortSignal;
  /** False: the wait does not keep the process alive. Default true. */
  persistent?: boolean;
}

/** Resolves after `ms` milliseconds. */
export async function delay(ms: number, options: DelayOptions = {}): Promise<void> {
  const { signal, persistent = true } = options;
  signal?.throwIfAborted();
  try {
    await wait(ms, undefined, { ref: persistent, ...(signal === undefined ? {} : { signal }) });
  } catch (caught) {
    throw signal?.aborted ? signal.reason : caught;
  }
}
