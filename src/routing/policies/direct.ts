import type { VirtualWorker } from "../worker.ts";
import type { Policy, RouteRequest } from "./policy.ts";

/** The worker that the client names, and no other; one with several logical workers may be named as a whole. */
export class Direct implements Policy {
  choose(candidates: readonly VirtualWorker[], request: RouteRequest): VirtualWorker | null {
    return candidates.find(({ name, worker }) =>
      name === request.wanted || worker.instanceId === request.wanted
    ) ??
      null;
  }
}
