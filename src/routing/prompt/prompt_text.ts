/** The prompt of a request as one text, or as the token ids that it consists of: what caches go by. */

/** See the head of this file. */
export type Prompt = string | Uint32Array;

/** Renders chat messages; a model's own template says how, see `chat_template.ts`. */
export type RenderChat = (messages: readonly ChatMessage[]) => string;

/** One message, its content as one text. */
export interface ChatMessage {
  readonly role: string;
  readonly content: string;
}

/** The prompt of a body's fields; null when there is none that could be read. `isChat`: it is a chat completion. */
export function promptOf(
  fields: Readonly<Record<string, unknown>>,
  isChat: boolean,
  render: RenderChat = renderPlain,
): Prompt | null {
  if (!isChat) return readPrompt(fields["prompt"]);
  const messages = fields["messages"];
  if (!Array.isArray(messages)) return null;
  return render(messages.map(readMessage));
}

/** Without a template: each message on a line of its own, so that equal beginnings stay equal beginnings. */
export function renderPlain(messages: readonly ChatMessage[]): string {
  let text = "";
  for (const { role, content } of messages) text += `${role}: ${content}\n`;
  return text;
}

function readMessage(message: unknown): ChatMessage {
  const fields = (typeof message === "object" && message !== null ? message : {}) as Record<string, unknown>;
  const { role, content } = fields;
  return { role: typeof role === "string" ? role : "", content: readContent(content) };
}

/** Text parts in order; what is no text (an image) counts for nothing. */
function readContent(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  let text = "";
  for (const part of content) if (typeof part?.text === "string") text += part.text;
  return text;
}

function readPrompt(prompt: unknown): Prompt | null {
  if (typeof prompt === "string") return prompt;
  if (!Array.isArray(prompt) || prompt.length === 0) return null;
  if (prompt.length === 1 && typeof prompt[0] === "string") return prompt[0];
  const ids = new Uint32Array(prompt.length);
  for (let i = 0; i < prompt.length; i++) {
    const id: unknown = prompt[i];
    if (typeof id !== "number" || !Number.isInteger(id) || id < 0 || id > 0xffff_ffff) return null;
    ids[i] = id;
  }
  return ids;
}
