/** What makes token ids of a prompt. */
import type { Prompt } from "./prompt_text.ts";

/** One tokenizer. */
export interface Tokenizer {
  readonly name: string;
  /** The ids of a text; ids that are given stay as they are. */
  encode(prompt: Prompt): Uint32Array;
}

const encoder = new TextEncoder();

/** Needs no file: every byte of UTF-8 is a token. Longer than any model's own, but equal for equal beginnings. */
export const byteTokenizer: Tokenizer = {
  name: "bytes",
  encode: (prompt) => typeof prompt === "string" ? Uint32Array.from(encoder.encode(prompt)) : prompt,
};
