/** One look, at the worker's start, whether its OpenAI-compatible server is there. */
import * as http from "node:http";
import * as https from "node:https";
import type { Logger } from "../../observe/log.ts";

const TIMEOUT_MS = 2_000;

/** What {@linkcode probeServer} looks at. */
export interface ProbeOptions {
  /** Base of the server's API, with its version. */
  readonly url: string;
  readonly apiKey: string | null;
  readonly log: Logger;
  /** In ms. */
  readonly timeoutMs?: number;
}

/** A probe under way. */
export interface Probe {
  /** Resolves when it has come to its end; never rejects. */
  readonly done: Promise<void>;
  /** Ends it without a word. */
  cancel(): void;
}

/** Asks for `URL/models` and warns when there is no answer, or another than 200. The worker serves in any case. */
export function probeServer({ url, apiKey, log, timeoutMs = TIMEOUT_MS }: ProbeOptions): Probe {
  const target = new URL(`${url.replace(/\/$/, "")}/models`);
  const { promise, resolve } = Promise.withResolvers<void>();
  const send = target.protocol === "https:" ? https.request : http.request;
  const headers = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
  const request = send(target, { method: "GET", agent: false, headers });
  let isOver = false;
  const end = (reason: string | null) => {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    request.destroy();
    if (reason !== null) log.warn("engine_not_ready", { url: target.href, reason });
    resolve();
  };
  const timer = setTimeout(() => end(`no answer in ${timeoutMs} ms`), timeoutMs);
  request.on("error", (error) => end(error.message));
  request.on("response", ({ statusCode }) => end(statusCode === 200 ? null : `status ${statusCode}`));
  request.on("upgrade", () => end("status 101"));
  request.end();
  return { done: promise, cancel: () => end(null) };
}
