import type { Worker } from "../worker_table.ts";
import type { Policy, RouteRequest } from "./policy.ts";

/** The worker that the client names, and no other. */
export class Direct implements Policy {
  choose(candidates: readonly Worker[], request: RouteRequest): Worker | null {
    return candidates.find((worker) => worker.instanceId === request.wanted) ?? null;
  }
}
