/** What the routes ask of the rest of the frontend. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "../observe/log.ts";
import type { ModelCard } from "../routing/worker_table.ts";
import type { FrontendOptions } from "./options.ts";
import type { Endpoint } from "./stats.ts";

/** What `/metrics` answers. */
export interface MetricsPage {
  readonly contentType: string;
  readonly body: string;
}

/** See above. */
export interface AppContext {
  readonly options: FrontendOptions;
  readonly log: Logger;
  /** Takes a request to a worker; answers it in any case. */
  readonly accept: (
    endpoint: Endpoint,
    request: IncomingMessage,
    response: ServerResponse,
    id: string,
  ) => void;
  readonly models: () => readonly ModelCard[];
  readonly isServing: () => boolean;
  readonly isDraining: () => boolean;
  readonly metrics: () => MetricsPage | Promise<MetricsPage>;
  /** A request with a wrong key; `endpoint` when it is one for workers. */
  readonly onUnauthorized: (endpoint: Endpoint | null) => void;
}
