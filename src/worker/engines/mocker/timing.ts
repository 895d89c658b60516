/**
 * How long a forward pass of a simulated GPU takes, in ms: the formulas of Dynamo's mocker, fitted to a real engine.
 *
 * | part | ms |
 * |---|---|
 * | prefill of T new tokens, T > 0 | 4.209989e-7 T² + 1.518344e-2 T + 16.50142 |
 * | one decode step with the share p of the KV cache in use | max(1, -25.74 p² + 54.01 p + 5.74) |
 */

/** Prefill of `tokens` new tokens; 0 for none. */
export function prefillMs(tokens: number): number {
  return tokens === 0 ? 0 : (4.209989e-7 * tokens + 1.518344e-2) * tokens + 16.50142;
}

/** One decode step. `share`: tokens of running requests to tokens that the cache holds; over 1 counts as 1. */
export function decodeMs(share: number): number {
  const p = Math.min(1, share);
  return Math.max(1, (-25.74 * p + 54.01) * p + 5.74);
}
