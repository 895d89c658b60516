/** The routes that workers answer. */
import type { EnginePath } from "../plane/request_message.ts";

/** Routes that workers answer. */
export const ENDPOINTS = Object.freeze(["chat_completions", "completions"] as const);
/** One of {@linkcode ENDPOINTS}. */
export type Endpoint = (typeof ENDPOINTS)[number];

/** The path of each, here and at an engine. */
export const ENDPOINT_PATHS: Readonly<Record<Endpoint, EnginePath>> = Object.freeze({
  chat_completions: "/v1/chat/completions",
  completions: "/v1/completions",
});
