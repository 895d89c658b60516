/** The series of API keys, by the name of each: a closed set, those of the keys in use. */
import type { Collectors } from "../../observe/metrics.ts";
import type { KeyGuard } from "./key_guard.ts";
import type { KeyLimiter } from "./key_limiter.ts";

/** Adds them; once per shard, where keys are asked for. */
export function addKeyMetrics(collectors: Collectors, keys: KeyGuard, limiter: KeyLimiter): void {
  collectors.add(
    "tokenplane_frontend_key_requests_total",
    "Requests for completions with a right key, by its name.",
    "counter",
    (emit) => {
      for (const [key, { requests }] of keys.counts) emit(requests, { key });
    },
  );
  collectors.add(
    "tokenplane_frontend_key_limited_total",
    "Of them, those refused by the limits of their key.",
    "counter",
    (emit) => {
      for (const [key, { limited }] of keys.counts) {
        for (const [limit, count] of Object.entries(limited)) emit(count, { key, limit });
      }
    },
  );
  collectors.add(
    "tokenplane_frontend_key_inflight_requests",
    "Requests for completions under way, by the name of their key.",
    "gauge",
    (emit) => {
      const sums = new Map<string, number>();
      for (const key of keys.keys) sums.set(key.name, (sums.get(key.name) ?? 0) + limiter.running(key));
      for (const [key, sum] of sums) emit(sum, { key });
    },
  );
}
