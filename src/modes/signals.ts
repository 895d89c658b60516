/** What SIGINT and SIGTERM do: the first drains, the second exits at once. */

/** Exit codes of a second signal: 128 and the signal's number, as shells count. */
export const SECOND_SIGNAL_EXIT_CODES = Object.freeze({ SIGINT: 130, SIGTERM: 143 } as const);
/** Signals that end the program. */
export type StopSignal = keyof typeof SECOND_SIGNAL_EXIT_CODES;

/**
 * How long a repeat of the first signal is still the same wish, ms. Ctrl-C under a wrapper (`npx`, `deno task`) comes
 * from the terminal and from the wrapper as well.
 */
export const SAME_WISH_MS = 500;

/** Where signals come from and what a second one does. */
export interface SignalHost {
  listen(signal: StopSignal, handler: () => void): void;
  exit(code: number): void;
  /** Monotonic, in ms. */
  now(): number;
}

const PROCESS: SignalHost = {
  listen: (signal, handler) => Deno.addSignalListener(signal, handler),
  exit: (code) => Deno.exit(code),
  now: () => performance.now(),
};

/** Resolves with the first stop signal; from then on another wish ends the process without waiting for anything. */
export function firstStopSignal(host: SignalHost = PROCESS): Promise<StopSignal> {
  const { promise, resolve } = Promise.withResolvers<StopSignal>();
  let first: StopSignal | null = null;
  let firstAtMs = 0;
  for (const signal of Object.keys(SECOND_SIGNAL_EXIT_CODES) as StopSignal[]) {
    host.listen(signal, () => {
      if (first === null) {
        first = signal;
        firstAtMs = host.now();
        return resolve(signal);
      }
      if (signal === first && host.now() - firstAtMs < SAME_WISH_MS) return;
      host.exit(SECOND_SIGNAL_EXIT_CODES[signal]);
    });
  }
  return promise;
}
