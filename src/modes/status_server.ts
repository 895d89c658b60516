/** The HTTP side of a process without clients: `/metrics`, `/health`, `/live`. */
import { Hono } from "hono";
import { formatHostPort, type HostPort } from "../config/host_port.ts";
import type { MetricsPage } from "../observe/metrics.ts";
import { DEFAULT_FRONTEND_OPTIONS } from "../frontend/options.ts";
import { createHttpServer, listen } from "../frontend/server.ts";
import type { Logger } from "../observe/log.ts";

/** Scrapers and probes; nobody else has business here. */
const MAX_CONNECTIONS = 256;
const BACKLOG = 64;
const PATHS = ["/metrics", "/health", "/live"] as const;

/** What the routes show. */
export interface StatusSource {
  /** `healthy` is answered with 200, the others with 503. */
  readonly health: () => "healthy" | "not_ready" | "shutting_down";
  /** Further fields of `/health`. */
  readonly details: () => Readonly<Record<string, unknown>>;
  readonly metrics: () => Promise<MetricsPage>;
}

/** A server that runs. */
export interface StatusServer {
  readonly address: HostPort;
  close(): Promise<void>;
}

/** Starts one. Throws `invalid_config` when the address cannot be had. */
export async function startStatusServer(
  where: HostPort,
  source: StatusSource,
  log: Logger,
): Promise<StatusServer> {
  const server = createHttpServer(statusApp(source, log).fetch, {
    ...DEFAULT_FRONTEND_OPTIONS,
    maxConnections: MAX_CONNECTIONS,
  });
  const port = await listen(server, { hostname: where.host, port: where.port }, BACKLOG);
  const address = { host: where.host, port };
  log.info("status_listening", { address: formatHostPort(address) });
  return {
    address,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The routes. */
export function statusApp(source: StatusSource, log: Logger): Hono {
  const app = new Hono();
  app.get("/metrics", async (c) => {
    const { contentType, body } = await source.metrics();
    return c.body(body, 200, { "content-type": contentType });
  });
  app.get("/health", (c) => {
    const status = source.health();
    return c.json({ status, ...source.details() }, status === "healthy" ? 200 : 503);
  });
  app.get("/live", (c) => c.json({ status: source.health() === "shutting_down" ? "shutting_down" : "live" }));
  for (const path of PATHS) {
    app.all(path, (c) => c.json({ error: "This path takes GET, HEAD." }, 405, { allow: "GET, HEAD" }));
  }
  app.notFound((c) => c.json({ error: "There is nothing at this path." }, 404));
  app.onError((error, c) => {
    log.error("route_failed", { path: c.req.path, error });
    return c.json({ error: "The route failed." }, 500);
  });
  return app;
}
