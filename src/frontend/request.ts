/**
 * What the frontend reads of a request body: which model, streamed or not. Everything else is the engine's to judge, and
 * travels to the worker as the client's own bytes.
 */
import { TokenplaneError } from "../errors.ts";
import { MAX_MODEL_CHARS } from "../routing/join_message.ts";
import type { Endpoint } from "./endpoints.ts";
import { invalidRequest } from "./error_body.ts";
import { isDeeperThan } from "./json_depth.ts";

/** A request that was understood. */
export interface ParsedRequest {
  readonly model: string;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** The whole body. */
  readonly fields: Readonly<Record<string, unknown>>;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Reads a request body. Throws `invalid_request` with a text for the client. */
export function parseRequest(endpoint: Endpoint, body: Uint8Array, maxJsonDepth: number): ParsedRequest {
  if (body.length === 0) throw invalidRequest("The request has no body. Send a JSON object.");
  if (isDeeperThan(body, maxJsonDepth)) {
    throw invalidRequest(`The JSON body is nested too deeply. The limit is ${maxJsonDepth} levels.`);
  }
  const fields = parseObject(body);
  const model = fields["model"];
  if (model === undefined || model === null) throw invalidRequest('The request has no "model".');
  if (typeof model !== "string") throw wrongType("model", "a string", model);
  if (model.length === 0 || model.length > MAX_MODEL_CHARS) {
    throw invalidRequest(`"model" must have 1 to ${MAX_MODEL_CHARS} characters.`);
  }
  if (endpoint === "chat_completions") {
    const { messages } = fields;
    if (messages === undefined) throw invalidRequest('The request has no "messages".');
    if (!Array.isArray(messages)) throw wrongType("messages", "an array", messages);
  } else {
    const { prompt } = fields;
    if (prompt === undefined) throw invalidRequest('The request has no "prompt".');
    if (typeof prompt !== "string" && !Array.isArray(prompt)) {
      throw wrongType("prompt", "a string or an array", prompt);
    }
  }
  return { model, stream: flag(fields, "stream", "stream"), includeUsage: includeUsage(fields), fields };
}

/** The error for a model that nobody serves. */
export function modelNotFound(model: string): TokenplaneError {
  const text = `The model ${JSON.stringify(model)} does not exist.`;
  return new TokenplaneError("model_not_found", text, { wire: text });
}

function parseObject(body: Uint8Array): Record<string, unknown> {
  let text: string;
  try {
    text = decoder.decode(body);
  } catch {
    throw invalidRequest("The body is not valid UTF-8.");
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // The runtime's message quotes the client's own text and nothing else; it is cut, as that text is unbounded.
    const why = error instanceof Error ? error.message.slice(0, 160) : "";
    throw invalidRequest(`The body is not valid JSON: ${why}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw wrongType("body", "a JSON object", value);
  }
  return value as Record<string, unknown>;
}

function includeUsage(fields: Record<string, unknown>): boolean {
  const options = fields["stream_options"];
  if (options === undefined || options === null) return false;
  if (typeof options !== "object" || Array.isArray(options)) {
    throw wrongType("stream_options", "an object", options);
  }
  return flag(options as Record<string, unknown>, "include_usage", "stream_options.include_usage");
}

function flag(fields: Record<string, unknown>, name: string, path: string): boolean {
  const value = fields[name];
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") throw wrongType(path, "a boolean", value);
  return value;
}

function wrongType(path: string, wanted: string, value: unknown): TokenplaneError {
  const got = value === null ? "null" : Array.isArray(value) ? "an array" : `a value of type ${typeof value}`;
  return invalidRequest(`"${path}" must be ${wanted}, not ${got}.`);
}
