/** How late the frontend's event loop was, from its own `/metrics`. */

/** Milliseconds. */
export interface LoopDelay {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const SAMPLE = /eventloop_lag_(p50|p99|max)_seconds(?:\{[^}]*\})? (\S+)$/;

/**
 * Reads the event-loop delay of the process on a port since it was last read; null when it reports none. Reading
 * starts a new interval.
 */
export async function readLoopDelay(port: number): Promise<LoopDelay | null> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(2_000) });
    const text = await response.text();
    return response.ok ? parseLoopDelay(text) : null;
  } catch {
    return null;
  }
}

/** Finds prom-client's `nodejs_eventloop_lag_…_seconds` in a metrics page. Of several (one a shard) the largest counts. */
export function parseLoopDelay(text: string): LoopDelay | null {
  const found = new Map<string, number>();
  for (const line of text.split("\n")) {
    const [, name, value] = SAMPLE.exec(line) ?? [];
    if (line.startsWith("#") || name === undefined) continue;
    found.set(name, Math.max(Number(value), found.get(name) ?? 0));
  }
  if (found.size === 0) return null;
  const at = (name: string) => (found.get(name) ?? NaN) * 1_000;
  return { p50: at("p50"), p99: at("p99"), max: at("max") };
}
