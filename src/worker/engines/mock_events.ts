/**
 * The bytes of one mock response, prepared once: everything but the token is constant while a stream runs.
 *
 * The token event is one buffer whose token is written anew for every step, so that a token costs five byte stores and
 * no allocation. Shapes are OpenAI's: role first, `finish_reason` last, then the usage chunk if asked, then `[DONE]`.
 */
import type { TokenUsage } from "../../outcome.ts";
import type { MockRequest } from "./mock_request.ts";
import { nextState, TOKEN_BYTES, writeToken } from "./mock_vocabulary.ts";

/** What is the same for every event of one response. */
export interface EventIdentity {
  /** Response id, e.g. `chatcmpl-…`. */
  readonly id: string;
  readonly model: string;
  /** Unix seconds. */
  readonly created: number;
}

/** Prepared bytes of one streamed response. */
export interface StreamEvents {
  /** First event (the role), null for plain completions. */
  readonly role: Uint8Array | null;
  /** The token event; the token goes to `token[tokenAt, tokenAt + TOKEN_BYTES)`. */
  readonly token: Uint8Array;
  readonly tokenAt: number;
  /** Finish event, usage event if asked, `[DONE]`. */
  readonly tail: Uint8Array;
}

/** Stands where the token will be; not in the vocabulary, no character that JSON escapes. */
const PLACEHOLDER = "#".repeat(TOKEN_BYTES);
const encoder = new TextEncoder();

/** Prepares a stream. `eventBytes`: least size of a token event in bytes, reached by a padding field; 0 for none. */
export function buildStreamEvents(
  request: MockRequest,
  identity: EventIdentity,
  usage: TokenUsage,
  eventBytes: number,
): StreamEvents {
  const base = {
    id: identity.id,
    object: request.chat ? "chat.completion.chunk" : "text_completion",
    created: identity.created,
    model: identity.model,
  };
  const choice = (delta: Record<string, string>, text: string, finish: string | null) =>
    request.chat
      ? { index: 0, delta, finish_reason: finish }
      : { index: 0, text, logprobs: null, finish_reason: finish };
  const token = { ...base, choices: [choice({ content: PLACEHOLDER }, PLACEHOLDER, null)] };
  const short = encodeEvent(token);
  const padding = eventBytes - short.length - PADDING_FIELD_BYTES;
  const event = eventBytes > short.length
    ? encodeEvent({ ...token, obfuscation: "x".repeat(Math.max(0, padding)) })
    : short;
  const finish = { ...base, choices: [choice({}, "", request.finishReason)] };
  const tail = [frame(finish)];
  if (request.includeUsage) tail.push(frame({ ...base, choices: [], usage: usageJson(usage) }));
  tail.push("data: [DONE]\n\n");
  return {
    role: request.chat
      ? encodeEvent({ ...base, choices: [choice({ role: "assistant", content: "" }, "", null)] })
      : null,
    token: event,
    tokenAt: findPlaceholder(event),
    tail: encoder.encode(tail.join("")),
  };
}

const PADDING_FIELD_BYTES = ',"obfuscation":""'.length;

/** The whole body of a response that is not streamed. */
export function buildWholeBody(
  request: MockRequest,
  identity: EventIdentity,
  usage: TokenUsage,
  state: number,
): Uint8Array {
  const text = new Uint8Array(request.tokens * TOKEN_BYTES);
  for (let i = 0; i < request.tokens; i++) {
    state = nextState(state);
    writeToken(text, i * TOKEN_BYTES, state);
  }
  const content = new TextDecoder().decode(text);
  const finish = { logprobs: null, finish_reason: request.finishReason };
  return encoder.encode(JSON.stringify({
    id: identity.id,
    object: request.chat ? "chat.completion" : "text_completion",
    created: identity.created,
    model: identity.model,
    choices: [
      request.chat
        ? { index: 0, message: { role: "assistant", content, refusal: null }, ...finish }
        : { index: 0, text: content, ...finish },
    ],
    usage: usageJson(usage),
  }));
}

function usageJson(usage: TokenUsage): Record<string, number> {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
  };
}

function frame(value: unknown): string {
  return `data: ${JSON.stringify(value)}\n\n`;
}

function encodeEvent(value: unknown): Uint8Array {
  return encoder.encode(frame(value));
}

/** The last run of placeholder bytes: what stands before it (a model's name) may hold anything. */
function findPlaceholder(event: Uint8Array): number {
  const hash = PLACEHOLDER.charCodeAt(0);
  let at = event.lastIndexOf(hash) - TOKEN_BYTES + 1;
  while (!event.subarray(at, at + TOKEN_BYTES).every((byte) => byte === hash)) at--;
  return at;
}
