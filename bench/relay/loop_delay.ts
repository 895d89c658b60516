/** How late the frontend's event loop was, from its own `/metrics`. */

/** Milliseconds. */
export interface LoopDelay {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

const METRIC = "event_loop_delay_seconds";

/** Reads the event-loop delay of the process on a port; null when it reports none (proxies, the floor). */
export async function readLoopDelay(port: number): Promise<LoopDelay | null> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(2_000) });
    const text = await response.text();
    return response.ok ? parseLoopDelay(text) : null;
  } catch {
    return null;
  }
}

/**
 * Finds samples like `tokenplane_event_loop_delay_seconds{quantile="0.99"} 0.004` in a metrics page. Of several (one a
 * shard) the largest counts.
 */
export function parseLoopDelay(text: string): LoopDelay | null {
  const found = new Map<string, number>();
  for (const line of text.split("\n")) {
    if (line.startsWith("#") || !line.includes(METRIC)) continue;
    const quantile = /quantile="([^"]+)"/.exec(line)?.[1];
    const value = Number(line.slice(line.lastIndexOf(" ") + 1));
    if (quantile !== undefined && Number.isFinite(value)) {
      found.set(quantile, Math.max(value, found.get(quantile) ?? 0));
    }
  }
  if (found.size === 0) return null;
  const at = (quantile: string) => (found.get(quantile) ?? NaN) * 1_000;
  return { p50: at("0.5"), p99: at("0.99"), max: at("1") };
}
