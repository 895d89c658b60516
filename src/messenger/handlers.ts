/** The handlers of one node, found by the bytes of their name. */
import { TokenplaneError } from "../errors.ts";
import { OperationStats } from "../observe/histogram.ts";
import { decodeName } from "./envelope.ts";
import type { BytesHandler, JsonHandler, OneWayHandler } from "./types.ts";

/** Requests of one response type. */
export class HandlerTypeStats extends OperationStats {
  requestBytes = 0;
  /** Of answers, and of the texts of errors. */
  responseBytes = 0;
  errorBytes = 0;
}

/** Plain numbers per handler, read at scrape. */
export interface HandlerStats {
  /** By response type: fire and forget, ack/nack, unary. */
  requests: number[];
  failures: number;
  requestBytes: number;
  /** Requests whose answer is not out yet. */
  inFlight: number;
  /** Of requests that are answered, by response type. */
  readonly answered: readonly HandlerTypeStats[];
}

/** One registered handler; exactly one of the three functions is set. */
export interface HandlerEntry {
  readonly name: string;
  readonly nameBytes: Uint8Array;
  readonly oneWay: OneWayHandler | null;
  readonly json: JsonHandler | null;
  readonly bytes: BytesHandler | null;
  readonly stats: HandlerStats;
}

const encoder = new TextEncoder();

/** See the head of this file. */
export class HandlerTable {
  readonly #byName = new Map<string, HandlerEntry>();
  /** One-way handlers carry the stream data: they are found without making a string of the name. */
  readonly #oneWay: HandlerEntry[] = [];

  /** Adds a handler. Throws `internal` when the name is taken or empty. */
  add(name: string, handler: Partial<Pick<HandlerEntry, "oneWay" | "json" | "bytes">>): void {
    if (name === "" || this.#byName.has(name)) {
      throw new TokenplaneError("internal", `Cannot register handler "${name}": the name is empty or taken`);
    }
    const entry: HandlerEntry = {
      name,
      nameBytes: encoder.encode(name),
      oneWay: handler.oneWay ?? null,
      json: handler.json ?? null,
      bytes: handler.bytes ?? null,
      stats: {
        requests: [0, 0, 0],
        failures: 0,
        requestBytes: 0,
        inFlight: 0,
        answered: [new HandlerTypeStats(), new HandlerTypeStats(), new HandlerTypeStats()],
      },
    };
    this.#byName.set(name, entry);
    if (entry.oneWay !== null) this.#oneWay.push(entry);
  }

  /** The one-way handler named by `bytes[at, at + length)`. */
  findOneWay(bytes: Uint8Array, at: number, length: number): HandlerEntry | null {
    for (const entry of this.#oneWay) {
      if (entry.nameBytes.length === length && isAt(bytes, at, entry.nameBytes)) return entry;
    }
    return null;
  }

  /** Any handler. Throws `protocol` when the name is no UTF-8. */
  find(name: Uint8Array): HandlerEntry | null {
    return this.#byName.get(decodeName(name)) ?? null;
  }

  /** Names of all handlers, in the order they were added. */
  names(): string[] {
    return [...this.#byName.keys()];
  }

  /** All handlers. */
  entries(): IterableIterator<HandlerEntry> {
    return this.#byName.values();
  }
}

function isAt(bytes: Uint8Array, at: number, expected: Uint8Array): boolean {
  for (let i = 0; i < expected.length; i++) if (bytes[at + i] !== expected[i]) return false;
  return true;
}
