/** Waiting in real time, for what has no virtual clock. */

/** Waits, a few turns of the event loop at a time, until `isTrue`. Throws after `ms`. */
export async function until(isTrue: () => boolean, what: string, ms = 3_000): Promise<void> {
  const end = performance.now() + ms;
  while (!isTrue()) {
    if (performance.now() > end) throw new Error(`Waited in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
