/** What the routes of a frontend are given. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "../observe/log.ts";
import type { MetricsPage } from "../observe/metrics.ts";
import type { ModelCard } from "../routing/worker.ts";
import type { Endpoint } from "./endpoints.ts";
import type { FrontendOptions } from "./options.ts";

/** What the routes ask of the rest of the frontend. */
export interface AppContext {
  readonly options: FrontendOptions;
  readonly log: Logger;
  /** Takes a request to a worker, or refuses it; answers it in any case. `keyName`: what its key is called, if it has one. */
  readonly accept: (
    endpoint: Endpoint,
    request: IncomingMessage,
    response: ServerResponse,
    id: string,
    keyName: string | undefined,
  ) => void;
  readonly models: () => readonly ModelCard[];
  readonly isServing: () => boolean;
  readonly isDraining: () => boolean;
  readonly metrics: () => MetricsPage | Promise<MetricsPage>;
  /** A request with a wrong key; `endpoint` when it is one for workers. */
  readonly onUnauthorized: (endpoint: Endpoint | null) => void;
  /** A request beyond the limits of its key. */
  readonly onRateLimited: (id: string, keyName: string) => void;
}
