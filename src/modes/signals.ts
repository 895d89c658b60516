/** What SIGINT and SIGTERM do: the first drains, the second exits at once. */

/** Exit codes of a second signal: 128 and the signal's number, as shells count. */
export const SECOND_SIGNAL_EXIT_CODES = Object.freeze({ SIGINT: 130, SIGTERM: 143 } as const);
/** Signals that end the program. */
export type StopSignal = keyof typeof SECOND_SIGNAL_EXIT_CODES;

/** Resolves with the first stop signal; from then on the next one ends the process without waiting for anything. */
export function firstStopSignal(): Promise<StopSignal> {
  const { promise, resolve } = Promise.withResolvers<StopSignal>();
  let isStopping = false;
  for (const signal of Object.keys(SECOND_SIGNAL_EXIT_CODES) as StopSignal[]) {
    Deno.addSignalListener(signal, () => {
      if (isStopping) Deno.exit(SECOND_SIGNAL_EXIT_CODES[signal]);
      isStopping = true;
      resolve(signal);
    });
  }
  return promise;
}
