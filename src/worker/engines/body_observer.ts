/** Observes a response that is one JSON body. */
import type { EngineSummary } from "./engine.ts";
import { Observed } from "./observed.ts";
import type { BodyEnd } from "./stream_observer.ts";

/** Sees one body go by; keeps a copy of it up to a limit, to read usage and finish reasons from at the end. */
export class BodyObserver {
  readonly #maxBytes: number;
  readonly #status: number;
  #parts: Uint8Array[] = [];
  #size = 0;

  /** @param maxBytes longest body that is read, in bytes; a longer one passes unread */
  constructor(status: number, maxBytes: number) {
    this.#status = status;
    this.#maxBytes = maxBytes;
  }

  feed(bytes: Uint8Array): void {
    this.#size += bytes.length;
    if (this.#size <= this.#maxBytes) this.#parts.push(new Uint8Array(bytes));
    else this.#parts = [];
  }

  /** The verdict: exactly one call, when no more bytes come. */
  summarise(end: BodyEnd): EngineSummary {
    const none = { usage: null, finishReasons: [] };
    if (end === "broken") {
      return { ...none, outcome: "truncated", detail: "The engine's connection broke" };
    }
    if (this.#status >= 400) {
      // Below 500 the engine did its part: it told the client what is wrong with the request.
      const outcome = this.#status < 500 ? "ok" : "upstream_error";
      return { ...none, outcome, detail: `The engine answered with status ${this.#status}` };
    }
    if (this.#size > this.#maxBytes) {
      const detail =
        `The engine's body of ${this.#size} bytes is over the limit of ${this.#maxBytes} for reading its usage`;
      return { ...none, outcome: "ok", detail };
    }
    const observed = new Observed();
    observed.read(this.#join());
    const { usage, finishReasons, error } = observed;
    if (error !== null) {
      return {
        usage,
        finishReasons,
        outcome: "upstream_error",
        detail: `The engine reported an error: ${error}`,
      };
    }
    // A body framed by the end of its connection can be cut without a sign but this one.
    if (observed.undecodable > 0) {
      return { usage, finishReasons, outcome: "truncated", detail: "The engine's body is not valid JSON" };
    }
    return { usage, finishReasons, outcome: "ok" };
  }

  #join(): Uint8Array {
    const whole = new Uint8Array(this.#size);
    let at = 0;
    for (const part of this.#parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  }
}
