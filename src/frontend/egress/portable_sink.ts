/** Egress through `ServerResponse.write`: works wherever `node:http` does, also over TLS. */
import type { ServerResponse } from "node:http";
import type { SseSink } from "./sink.ts";

/** {@linkcode SseSink} that leaves the framing to `node:http`. */
export class PortableSink implements SseSink {
  readonly #response: ServerResponse;
  readonly #onDrain: () => void;
  #blocked = false;

  constructor(response: ServerResponse, onWritable: () => void) {
    this.#response = response;
    this.#onDrain = () => {
      this.#blocked = false;
      onWritable();
    };
  }

  get blocked(): boolean {
    return this.#blocked;
  }

  write(buffer: Uint8Array<ArrayBuffer>, _frame: number, dataStart: number, dataEnd: number): boolean {
    const response = this.#response;
    if (response.destroyed) return true;
    // What has to wait must not keep the whole buffer alive.
    const isWaiting = response.writableLength > 0;
    const data = isWaiting ? buffer.slice(dataStart, dataEnd) : buffer.subarray(dataStart, dataEnd);
    if (response.write(data)) return true;
    if (!this.#blocked) {
      this.#blocked = true;
      response.once("drain", this.#onDrain);
    }
    return false;
  }

  end(): void {
    this.#response.end();
    this.release();
  }

  release(): void {
    this.#response.off("drain", this.#onDrain);
  }
}

/** {@linkcode SinkFactory} for {@linkcode PortableSink}. */
export function portableSink(response: ServerResponse, onWritable: () => void): SseSink {
  return new PortableSink(response, onWritable);
}
