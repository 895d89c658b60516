/**
 * Egress by writing framed chunks to the connection's socket, past `ServerResponse`, or past the socket too (`direct`).
 *
 * The head and the first chunks go through the response, which alone knows when an earlier, pipelined response has left
 * the connection to it. Once the callback of the first write has run, the head is on the wire, the socket is ours until
 * `end()`, and everything goes to it in order. A direct send happens only while the socket has nothing queued; what the
 * kernel does not take at once goes through the socket, and direct sending rests until that has left.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { DirectSend } from "./direct_send.ts";
import type { SseSink } from "./sink.ts";

/** {@linkcode SseSink} on a `node:net` socket. */
export class SocketSink implements SseSink {
  readonly #response: ServerResponse;
  readonly #onDrain: () => void;
  readonly #isDirect: boolean;
  /** Null until the socket is ours, after `release`, and where there is no such way. */
  #direct: DirectSend | null = null;
  /** Null until the head is on the wire, and after `release`. */
  #socket: Socket | null = null;
  #hasWritten = false;
  #isHeadSent = false;
  #isReleased = false;
  #blocked = false;
  /** The socket may have bytes queued: it is asked before the next chunk. Asking costs, so it is not done for each. */
  #isQueued = true;

  /** @param isDirect sends by the system call where the connection allows it */
  constructor(response: ServerResponse, onWritable: () => void, isDirect: boolean) {
    this.#response = response;
    this.#isDirect = isDirect;
    this.#onDrain = () => {
      this.#blocked = false;
      onWritable();
    };
  }

  get blocked(): boolean {
    return this.#blocked;
  }

  write(
    buffer: Uint8Array<ArrayBuffer>,
    frameStart: number,
    dataStart: number,
    dataEnd: number,
    frameEnd: number,
  ): boolean {
    const socket = this.#socket;
    if (socket === null) return this.#writeOpening(buffer, dataStart, dataEnd);
    if (socket.destroyed) return true;
    if (this.#isQueued) this.#isQueued = socket.writableLength > 0;
    if (this.#direct !== null && !this.#isQueued) {
      frameStart += this.#direct.send(buffer.subarray(frameStart, frameEnd));
      if (frameStart === frameEnd) return true;
    }
    // What has to wait must not keep the whole buffer alive.
    const frame = this.#isQueued || this.#direct !== null
      ? buffer.slice(frameStart, frameEnd)
      : buffer.subarray(frameStart, frameEnd);
    this.#isQueued = true;
    if (socket.write(frame)) return true;
    if (!this.#blocked) {
      this.#blocked = true;
      socket.once("drain", this.#onDrain);
    }
    return false;
  }

  end(): void {
    this.#response.end();
    this.release();
  }

  release(): void {
    this.#isReleased = true;
    this.#response.off("drain", this.#onDrain);
    this.#socket?.off("drain", this.#onDrain);
    this.#socket = null;
    this.#direct?.close();
    this.#direct = null;
  }

  #writeOpening(buffer: Uint8Array<ArrayBuffer>, dataStart: number, dataEnd: number): boolean {
    const response = this.#response;
    if (this.#isReleased || response.destroyed) return true;
    // A pipelined response may wait for long: its chunks must not keep the whole buffer alive.
    const data = buffer.slice(dataStart, dataEnd);
    let isTaken: boolean;
    if (this.#hasWritten) {
      isTaken = response.write(data);
    } else {
      this.#hasWritten = true;
      isTaken = response.write(data, (error) => {
        this.#isHeadSent = !error;
        this.#adopt();
      });
    }
    if (!isTaken && !this.#blocked) {
      this.#blocked = true;
      response.once("drain", this.#onDrain);
    }
    this.#adopt();
    return isTaken;
  }

  /** Takes the socket over, unless the response still waits for its own `drain`. */
  #adopt(): void {
    const isOurs = this.#isHeadSent && !this.#blocked && !this.#isReleased;
    // A client of HTTP/1.0 gets no chunks: its body ends with the connection, and goes through the response.
    if (!isOurs || !this.#response.chunkedEncoding || this.#socket !== null) return;
    this.#socket = this.#response.socket;
    if (this.#isDirect && this.#socket !== null) this.#direct = DirectSend.open(this.#socket);
  }
}

/** {@linkcode SinkFactory} for {@linkcode SocketSink} by the socket's own writes. */
export function socketSink(response: ServerResponse, onWritable: () => void): SseSink {
  return new SocketSink(response, onWritable, false);
}

/** {@linkcode SinkFactory} for {@linkcode SocketSink} by direct sends. */
export function directSink(response: ServerResponse, onWritable: () => void): SseSink {
  return new SocketSink(response, onWritable, true);
}
