/** From a request's body to the names of its prompt's blocks. */
import { type BlockHashes, hashBlocks } from "../kv/block_hashes.ts";
import { promptOf, type RenderChat, renderPlain } from "./prompt_text.ts";
import type { Tokenizer } from "./tokenizer.ts";

/** See the head of this file. */
export class PromptHasher {
  readonly #tokenizer: Tokenizer;
  readonly #blockSize: number;
  readonly #render: RenderChat;

  /** @param blockSize tokens of one block */
  constructor(tokenizer: Tokenizer, blockSize: number, render: RenderChat = renderPlain) {
    this.#tokenizer = tokenizer;
    this.#blockSize = blockSize;
    this.#render = render;
  }

  /** The blocks of a body's prompt; null when there is no prompt that could be read. */
  hash(fields: Readonly<Record<string, unknown>>, isChat: boolean): BlockHashes | null {
    const prompt = promptOf(fields, isChat, this.#render);
    return prompt === null ? null : hashBlocks(this.#tokenizer.encode(prompt), this.#blockSize);
  }
}
