/** The two routes that tokens leave by: they check the key and its limits, hand the request on, and answer on the node response. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { TokenplaneError } from "../errors.ts";
import type { AppContext } from "./app_context.ts";
import { type Endpoint, ENDPOINT_PATHS } from "./endpoints.ts";
import type { KeyGuard } from "./keys/key_guard.ts";
import type { KeyLimiter } from "./keys/key_limiter.ts";
import { requestIdOf } from "./request_id.ts";
import { sendError } from "./respond.ts";

/** A name or IPv4 address, without a port or with one below 60000. Others may be as valid: they are the router's to judge. */
const PLAIN_HOST = /^[\w.-]{1,255}(?::[1-5]?\d{1,4})?$/;

/** See above. */
export class GenerateRoute {
  readonly #context: AppContext;
  readonly #keys: KeyGuard;
  readonly #limiter: KeyLimiter;

  constructor(context: AppContext, keys: KeyGuard, limiter: KeyLimiter) {
    this.#context = context;
    this.#keys = keys;
    this.#limiter = limiter;
  }

  /** Answers a request for `endpoint`, now or later. */
  answer(endpoint: Endpoint, request: IncomingMessage, response: ServerResponse): void {
    const { accept, log, onRateLimited, onUnauthorized, options } = this.#context;
    const id = requestIdOf(request.headers["x-request-id"]);
    try {
      if (this.#keys.isOpen) return accept(endpoint, request, response, id, undefined);
      const key = this.#keys.identify(request.headers.authorization);
      if (key === null) {
        onUnauthorized(endpoint);
        sendError(response, new TokenplaneError("unauthorized", "Wrong API key"), id, options);
        return;
      }
      const error = this.#limiter.admit(key, request, response);
      if (error === null) return accept(endpoint, request, response, id, key.name);
      onRateLimited(id, key.name);
      sendError(response, error, id, options);
    } catch (error) {
      log.error("route_failed", { path: ENDPOINT_PATHS[endpoint], error });
      sendError(response, new TokenplaneError("internal", "Route failed"), id, options);
    }
  }

  /**
   * Answers a request in the form that nearly all clients send, past the router, which takes a fifth of a request's time
   * and memory. False, and nothing done, for any other.
   */
  answerPlain(request: IncomingMessage, response: ServerResponse): boolean {
    const endpoint = plainEndpoint(request.url);
    const { host } = request.headers;
    if (endpoint === null || request.method !== "POST" || host === undefined || !PLAIN_HOST.test(host)) {
      return false;
    }
    this.answer(endpoint, request, response);
    return true;
  }
}

function plainEndpoint(url: string | undefined): Endpoint | null {
  switch (url) {
    case ENDPOINT_PATHS.chat_completions:
      return "chat_completions";
    case ENDPOINT_PATHS.completions:
      return "completions";
    default:
      return null;
  }
}
