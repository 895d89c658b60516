/** Egress through `ServerResponse.write`: works wherever `node:http` does, also over TLS. */
import type { ServerResponse } from "node:http";
import type { Egress, SinkHost, SseSink } from "./sink.ts";

/** {@linkcode SseSink} that leaves the framing to `node:http`. */
export class PortableSink implements SseSink {
  readonly headRoom = 0;
  readonly #response: ServerResponse;
  readonly #onDrain: () => void;
  #blocked = false;

  constructor(response: ServerResponse, host: SinkHost) {
    this.#response = response;
    this.#onDrain = () => {
      this.#blocked = false;
      host.onWritable();
    };
  }

  prefetch(): number {
    return this.#blocked ? 1 : 0;
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

  writeLast(buffer: Uint8Array<ArrayBuffer>, frame: number, dataStart: number, dataEnd: number): void {
    this.write(buffer, frame, dataStart, dataEnd);
    this.end();
  }

  end(): void {
    this.#response.end();
    this.release();
  }

  release(): void {
    this.#response.off("drain", this.#onDrain);
  }
}

/** {@linkcode Egress} by {@linkcode PortableSink}. */
export const portableEgress: Egress = Object.freeze({
  name: "portable",
  keepsChunks: true,
  sink: (response: ServerResponse, host: SinkHost) => new PortableSink(response, host),
  beginFlush() {},
  endFlush() {},
});
