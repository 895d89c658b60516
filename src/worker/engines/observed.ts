/** What a response said of itself: usage, finish reasons, an error. Read on the side, never rewritten. */
import type { TokenUsage } from "../../outcome.ts";

const MAX_CHOICES = 128;
const MAX_TEXT_CHARS = 256;
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Gathers the facts of one response, from one body or from many events. */
export class Observed {
  /** The last usage seen: engines that report more than once report running totals. */
  usage: TokenUsage | null = null;
  /** First error object or error event, as text for the log. */
  error: string | null = null;
  /** Bodies or events that were no UTF-8 or no JSON. */
  undecodable = 0;
  readonly #reasons = new Map<number, string>();

  /** By choice, each choice once. */
  get finishReasons(): string[] {
    return [...this.#reasons.entries()].sort(([a], [b]) => a - b).map(([, reason]) => reason);
  }

  /** Takes one JSON text. */
  read(bytes: Uint8Array): void {
    let value: unknown;
    try {
      value = JSON.parse(decoder.decode(bytes));
    } catch {
      this.undecodable++;
      return;
    }
    if (typeof value !== "object" || value === null) return;
    const { usage, choices, error } = value as Record<string, unknown>;
    if (error) this.error ??= describeError(error);
    this.usage = readUsage(usage) ?? this.usage;
    if (Array.isArray(choices)) this.#readChoices(choices);
  }

  #readChoices(choices: unknown[]): void {
    choices.forEach((choice, position) => {
      const { index, finish_reason: reason } = (choice ?? {}) as Record<string, unknown>;
      if (typeof reason !== "string" || reason === "") return;
      const at = Number.isInteger(index) ? index as number : position;
      if (this.#reasons.has(at) || this.#reasons.size < MAX_CHOICES) {
        this.#reasons.set(at, reason.slice(0, MAX_TEXT_CHARS));
      }
    });
  }
}

function readUsage(usage: unknown): TokenUsage | null {
  if (typeof usage !== "object" || usage === null) return null;
  const fields = usage as Record<string, unknown>;
  const prompt = fields.prompt_tokens ?? 0;
  const completion = fields.completion_tokens ?? 0;
  if (!isCount(prompt) || !isCount(completion)) return null;
  const total = fields.total_tokens;
  return {
    promptTokens: prompt,
    completionTokens: completion,
    totalTokens: isCount(total) ? total : prompt + completion,
  };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function describeError(error: unknown): string {
  const message = typeof error === "object" ? (error as Record<string, unknown>).message : error;
  return typeof message === "string" ? message.slice(0, MAX_TEXT_CHARS) : "no message";
}
