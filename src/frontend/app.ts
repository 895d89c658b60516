/** The routes. Only the two generating ones touch workers; they answer on the node response themselves. */
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { type Context, Hono } from "hono";
import type { IncomingMessage, ServerResponse } from "node:http";
import { TokenplaneError } from "../errors.ts";
import type { ModelCard } from "../routing/worker.ts";
import type { AppContext } from "./app_context.ts";
import { type Endpoint, ENDPOINT_PATHS } from "./endpoints.ts";
import { type ErrorBody, errorReply, httpErrorBody } from "./error_body.ts";
import type { GenerateRoute } from "./generate_route.ts";
import type { KeyGuard } from "./keys/key_guard.ts";
import { modelNotFound } from "./request.ts";
import { requestIdOf } from "./request_id.ts";

interface Env {
  Bindings: { incoming: IncomingMessage; outgoing: ServerResponse };
}

/** Builds the app. Most requests for the two generating paths never reach it: `answerPlain` takes them first. */
export function createApp(context: AppContext, keys: KeyGuard, generating: GenerateRoute): Hono<Env> {
  const app = new Hono<Env>();

  function generate(endpoint: Endpoint): (c: Context<Env>) => Response {
    return (c) => {
      generating.answer(endpoint, c.env.incoming, c.env.outgoing);
      return RESPONSE_ALREADY_SENT;
    };
  }

  function reply(c: Context<Env>, status: number, value: unknown, extra?: Record<string, string>): Response {
    return new Response(JSON.stringify(value), {
      status,
      headers: {
        "content-type": "application/json",
        "x-request-id": requestIdOf(c.env.incoming.headers["x-request-id"]),
        ...extra,
      },
    });
  }

  function guarded(handler: (c: Context<Env>) => Response): (c: Context<Env>) => Response {
    return (c) => {
      if (keys.admits(c.env.incoming.headers.authorization)) return handler(c);
      context.onUnauthorized(null);
      const { status, body } = errorReply(new TokenplaneError("unauthorized", "Wrong API key"));
      return reply(c, status, body, { "www-authenticate": "Bearer" });
    };
  }

  app.post(ENDPOINT_PATHS.chat_completions, generate("chat_completions"));
  app.post(ENDPOINT_PATHS.completions, generate("completions"));
  app.get(
    "/v1/models",
    guarded((c) => reply(c, 200, { object: "list", data: context.models().map(modelObject) })),
  );
  app.get(
    "/v1/models/*",
    guarded((c) => {
      const id = decoded(c.req.path.slice("/v1/models/".length));
      const card = context.models().find((model) => model.id === id);
      if (card !== undefined) return reply(c, 200, modelObject(card));
      const { status, body } = errorReply(modelNotFound(id.slice(0, 256)));
      return reply(c, status, body);
    }),
  );
  app.get("/health", (c) => {
    const status = context.isDraining() ? "shutting_down" : context.isServing() ? "healthy" : "not_ready";
    const models = context.models().map((card) => card.id);
    return reply(c, status === "healthy" ? 200 : 503, { status, models });
  });
  app.get("/live", (c) => reply(c, 200, { status: context.isDraining() ? "shutting_down" : "live" }));
  app.get("/metrics", async (c) => {
    const { contentType, body } = await context.metrics();
    const id = requestIdOf(c.env.incoming.headers["x-request-id"]);
    return new Response(body, { headers: { "content-type": contentType, "x-request-id": id } });
  });

  const allowed: Readonly<Record<string, string>> = {
    [ENDPOINT_PATHS.chat_completions]: "POST",
    [ENDPOINT_PATHS.completions]: "POST",
    "/v1/models": "GET, HEAD",
    "/v1/models/*": "GET, HEAD",
    "/health": "GET, HEAD",
    "/live": "GET, HEAD",
    "/metrics": "GET, HEAD",
  };
  for (const [path, methods] of Object.entries(allowed)) {
    app.all(path, (c) => {
      const body = httpErrorBody(`This path takes ${methods}.`, "method_not_allowed");
      return reply(c, 405, body, { allow: methods });
    });
  }
  app.notFound((c) => reply(c, 404, httpErrorBody("There is nothing at this path.", "not_found")));
  app.onError((error, c) => {
    context.log.error("route_failed", { path: c.req.path, error });
    const { status, body } = errorReply(new TokenplaneError("internal", "Route failed"));
    return reply(c, status, body);
  });
  return app;
}

/** The answer when a request cannot even be routed. */
export function unroutable(): Response {
  const body: ErrorBody = httpErrorBody("The request line or the host is not valid.", "bad_request");
  return new Response(JSON.stringify(body), { status: 400, headers: { "content-type": "application/json" } });
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function modelObject(card: ModelCard): Record<string, unknown> {
  return { id: card.id, object: "model", created: card.created, owned_by: card.ownedBy };
}
