/**
 * A real OpenAI-compatible server behind the worker. What it answers reaches the client byte for byte.
 *
 * On `node:http` rather than `fetch`: bodies come undecoded, connections are pooled under a cap, a pause stops the
 * socket, and an abort destroys it at once.
 */
import * as http from "node:http";
import * as https from "node:https";
import { TokenplaneError } from "../../errors.ts";
import type { Engine, EngineConnections, EngineOutput, EngineRequest } from "./engine.ts";
import { sendApiError } from "./error_response.ts";
import { OpenAiCall } from "./openai_call.ts";
import { type OpenAiOptions, type OpenAiSettings, withDefaults } from "./openai_options.ts";

/** Headers that say how one hop is made, or that this hop says itself. */
const OWN_HEADERS: ReadonlySet<string> = new Set([
  "accept",
  "accept-encoding",
  "connection",
  "content-encoding",
  "content-length",
  "content-type",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** {@linkcode Engine} in front of an OpenAI-compatible server. */
export class OpenAiEngine implements Engine {
  readonly name = "openai";
  readonly url: string;
  readonly #base: URL;
  readonly #settings: OpenAiSettings;
  readonly #agent: http.Agent;
  readonly #calls = new Set<OpenAiCall>();
  #closed = false;

  /** Throws `invalid_config` when the URL is none, or of another scheme than `http:` and `https:`. */
  constructor(options: OpenAiOptions) {
    this.#base = parseBase(options.url);
    this.url = this.#base.href;
    this.#settings = withDefaults(options);
    const agentOptions = {
      keepAlive: true,
      maxSockets: this.#settings.maxConnections,
      maxFreeSockets: this.#settings.maxConnections,
    };
    this.#agent = this.#base.protocol === "https:"
      ? new https.Agent(agentOptions)
      : new http.Agent(agentOptions);
  }

  get running(): number {
    return this.#calls.size;
  }

  get connections(): EngineConnections {
    const { freeSockets, requests, sockets } = this.#agent;
    return { busy: total(sockets), idle: total(freeSockets), waiting: total(requests) };
  }

  run(request: EngineRequest, output: EngineOutput): void {
    if (this.#closed) {
      const error = { message: "The engine is shutting down", type: "server_error", code: "unavailable" };
      return sendApiError(output, 503, error, "upstream_error");
    }
    if (output.signal.aborted) return;
    const call = new OpenAiCall(output, this.#settings, request.stream, (ended) => this.#calls.delete(ended));
    this.#calls.add(call);
    const send = this.#base.protocol === "https:" ? https.request : http.request;
    call.start(() => send(this.#target(request.path), this.#requestOptions(request)), request.body);
  }

  close(): Promise<void> {
    this.#closed = true;
    for (const call of [...this.#calls]) call.cut("The engine was closed");
    this.#agent.destroy();
    return Promise.resolve();
  }

  /** The base carries the version already: `/v1/chat/completions` becomes `BASE/chat/completions`. */
  #target(path: string): URL {
    const target = new URL(this.#base);
    target.pathname = `${target.pathname.replace(/\/$/, "")}${path.replace(/^\/v1(?=\/)/, "")}`;
    return target;
  }

  #requestOptions(request: EngineRequest): https.RequestOptions {
    const headers: Record<string, string | number> = {};
    for (const [name, value] of Object.entries(request.headers)) {
      if (!OWN_HEADERS.has(name)) headers[name] = value;
    }
    // The client was told this id, and looks for it in the server's log.
    headers["x-request-id"] ??= request.id;
    if (this.#settings.apiKey !== null) headers.authorization = `Bearer ${this.#settings.apiKey}`;
    headers.accept = request.stream ? "text/event-stream" : "application/json";
    // An encoded body could not be relayed byte for byte and observed as well.
    headers["accept-encoding"] = "identity";
    headers["content-type"] = "application/json";
    headers["content-length"] = request.body.length;
    return { method: "POST", agent: this.#agent, headers };
  }
}

function total(lists: NodeJS.ReadOnlyDict<readonly unknown[]>): number {
  return Object.values(lists).reduce((sum, list) => sum + (list?.length ?? 0), 0);
}

function parseBase(url: string): URL {
  const base = URL.canParse(url) ? new URL(url) : null;
  if (base === null || (base.protocol !== "http:" && base.protocol !== "https:")) {
    throw new TokenplaneError("invalid_config", `Cannot use engine URL "${url}": give http://HOST:PORT/v1`);
  }
  return base;
}
