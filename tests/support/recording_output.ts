/** An {@linkcode EngineOutput} that keeps what an engine wrote and can hold it back. */
import type { EngineOutput, EngineRequest, EngineSummary } from "../../src/worker/engines/engine.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Keeps everything; throws when an engine breaks the order head, data, end. */
export class RecordingOutput implements EngineOutput {
  status = 0;
  contentType = "";
  readonly chunks: Uint8Array[] = [];
  summary: EngineSummary | null = null;
  /** What `data` answers. */
  writable = true;
  onWritable: (() => void) | null = null;
  /** Called with every data item, e.g. to note the order among outputs. */
  onData: ((bytes: Uint8Array) => void) | null = null;
  readonly #abort = new AbortController();
  readonly #done = Promise.withResolvers<EngineSummary>();

  /** Settles when the engine has ended the response. */
  readonly ended: Promise<EngineSummary> = this.#done.promise;

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  head(status: number, contentType: string): void {
    if (this.status !== 0) throw new Error("Cannot write a second head");
    this.status = status;
    this.contentType = contentType;
  }

  data(bytes: Uint8Array): boolean {
    if (this.status === 0) throw new Error("Cannot write data before the head");
    if (this.summary !== null) throw new Error("Cannot write data after the end");
    this.chunks.push(bytes.slice());
    this.onData?.(bytes);
    return this.writable;
  }

  end(summary: EngineSummary): void {
    if (this.status === 0) throw new Error("Cannot end before the head");
    if (this.summary !== null) throw new Error("Cannot end twice");
    this.summary = summary;
    this.#done.resolve(summary);
  }

  /** The consumer goes away. */
  abort(): void {
    this.#abort.abort();
  }

  /** Room again. */
  release(): void {
    this.writable = true;
    this.onWritable?.();
  }

  bytes(): Uint8Array {
    const all = new Uint8Array(this.chunks.reduce((sum, chunk) => sum + chunk.length, 0));
    let at = 0;
    for (const chunk of this.chunks) {
      all.set(chunk, at);
      at += chunk.length;
    }
    return all;
  }

  text(): string {
    return decoder.decode(this.bytes());
  }

  /** The data of every LF-framed event, `[DONE]` included. */
  events(): string[] {
    return this.text().split("\n\n").filter((event) => event !== "").map((event) =>
      event.slice("data: ".length)
    );
  }
}

/** A chat request; `body` overrides or adds fields. */
export function chatRequest(
  body: Record<string, unknown> = {},
  overrides: Partial<EngineRequest> = {},
): EngineRequest {
  const whole = { model: "mock", messages: [{ role: "user", content: "Hi" }], stream: true, ...body };
  return {
    id: "req-1",
    path: "/v1/chat/completions",
    model: "mock",
    stream: whole.stream === true,
    headers: {},
    body: encoder.encode(JSON.stringify(whole)),
    ...overrides,
  };
}
