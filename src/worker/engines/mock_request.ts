/** What the mock reads from a request's body, and what it refuses. `stop` and the sampling settings are accepted and not applied. */
import type { EngineRequest } from "./engine.ts";
import type { ApiError } from "./error_response.ts";
import { hashText } from "./mock_vocabulary.ts";

/** A request as the mock serves it. */
export interface MockRequest {
  readonly chat: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  /** Tokens to make. */
  readonly tokens: number;
  /** `length` when the client set the number of tokens, else `stop`. */
  readonly finishReason: "length" | "stop";
  /** Estimate: one per four characters of text, and four per message. */
  readonly promptTokens: number;
  /** Hash of what the answer depends on: the text asked and the request's `seed`. */
  readonly hash: number;
}

/** Bounds of what a request may ask. */
export interface MockLimits {
  /** Tokens when the request names no number. */
  readonly defaultTokens: number;
  /** Most tokens a request may name. */
  readonly maxTokens: number;
}

/** Text over this many characters does not change the answer any more. */
const MAX_HASHED_CHARS = 65_536;

const decoder = new TextDecoder("utf-8", { fatal: true });

/** Reads a request, or says what is wrong with it. */
export function parseMockRequest(request: EngineRequest, limits: MockLimits): MockRequest | ApiError {
  let body: unknown;
  try {
    body = JSON.parse(decoder.decode(request.body));
  } catch {
    return invalid("The request body is not valid JSON");
  }
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    return invalid("The request body must be a JSON object");
  }
  const fields = body as Record<string, unknown>;
  const chat = request.path === "/v1/chat/completions";
  const prompt = chat ? readMessages(fields.messages) : readPrompt(fields.prompt);
  if (typeof prompt === "string") return invalid(prompt, chat ? "messages" : "prompt");
  if (fields.n !== undefined && fields.n !== null && fields.n !== 1) {
    return invalid("Only one choice can be made: 'n' must be 1", "n");
  }
  const stream = fields.stream ?? false;
  if (typeof stream !== "boolean") return invalid("'stream' must be a boolean", "stream");
  const includeUsage = readIncludeUsage(fields.stream_options, stream);
  if (typeof includeUsage === "string") return invalid(includeUsage, "stream_options");
  const name = fields.max_completion_tokens != null ? "max_completion_tokens" : "max_tokens";
  const asked = fields[name] ?? null;
  if (asked !== null && !isCount(asked, 1, limits.maxTokens)) {
    return invalid(`'${name}' must be an integer from 1 to ${limits.maxTokens}`, name);
  }
  const tokens = (asked as number | null) ?? limits.defaultTokens;
  const least = fields.min_tokens ?? 0;
  if (!isCount(least, 0, limits.maxTokens) || (asked !== null && least > tokens)) {
    return invalid("'min_tokens' must be an integer from 0 to the number of tokens asked", "min_tokens");
  }
  const seed = fields.seed ?? 0;
  if (!Number.isSafeInteger(seed)) return invalid("'seed' must be an integer", "seed");
  return {
    chat,
    stream,
    includeUsage,
    tokens: Math.max(tokens, least),
    finishReason: asked === null ? "stop" : "length",
    promptTokens: Math.ceil(prompt.chars / 4) + 4 * prompt.parts,
    hash: hashText(String(seed), prompt.hash),
  };
}

/** True when {@linkcode parseMockRequest} refused. */
export function isRefused(parsed: MockRequest | ApiError): parsed is ApiError {
  return "message" in parsed;
}

/** Text of a prompt, summed up. */
class PromptText {
  chars = 0;
  parts = 0;
  hash = hashText("");

  add(text: string): void {
    const room = MAX_HASHED_CHARS - this.chars;
    if (room > 0) this.hash = hashText(text.length > room ? text.slice(0, room) : text, this.hash);
    this.chars += text.length;
  }
}

function readMessages(messages: unknown): PromptText | string {
  if (!Array.isArray(messages) || messages.length === 0) {
    return "'messages' must be a list with at least one message";
  }
  const prompt = new PromptText();
  for (const message of messages) {
    if (typeof message !== "object" || message === null || typeof message.role !== "string") {
      return "Every message must be an object with a 'role'";
    }
    prompt.parts++;
    prompt.add(message.role);
    const { content } = message;
    if (typeof content === "string") prompt.add(content);
    else if (Array.isArray(content)) {
      for (const part of content) if (typeof part?.text === "string") prompt.add(part.text);
    } else if (content !== undefined && content !== null) {
      return "A message's 'content' must be text or a list of parts";
    }
  }
  return prompt;
}

function readPrompt(prompt: unknown): PromptText | string {
  const text = new PromptText();
  if (typeof prompt === "string") text.add(prompt);
  else if (Array.isArray(prompt) && prompt.length === 1 && typeof prompt[0] === "string") text.add(prompt[0]);
  else if (Array.isArray(prompt) && prompt.length > 0 && prompt.every((id) => isCount(id, 0, 0xffff_ffff))) {
    // Token ids count as what they are: four characters each.
    for (const id of prompt) text.add(String(id).padStart(4).slice(-4));
  } else return "'prompt' must be one text or one list of token ids";
  return text;
}

function readIncludeUsage(options: unknown, stream: boolean): boolean | string {
  if (options === undefined || options === null) return false;
  if (!stream) return "'stream_options' is only allowed when 'stream' is true";
  if (typeof options !== "object") return "'stream_options' must be an object";
  const include = (options as Record<string, unknown>).include_usage ?? false;
  return typeof include === "boolean" ? include : "'stream_options.include_usage' must be a boolean";
}

function isCount(value: unknown, least: number, most: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= least && value <= most;
}

function invalid(message: string, param?: string): ApiError {
  return { message, type: "invalid_request_error", ...(param === undefined ? {} : { param }) };
}
