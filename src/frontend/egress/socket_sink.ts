/**
 * Egress by writing framed chunks to the connection's socket, past `ServerResponse`, or past the socket too (`direct`).
 *
 * When the connection is this response's and idle, the head leaves with the first chunk in one send, and the end of the
 * body with the last one. Otherwise the head and the first chunks go through the response, which alone knows when an
 * earlier, pipelined response has left the connection to it; once the callback of the first write has run, the head is
 * on the wire. From then on the socket is ours until `end()`, and everything goes to it in order. A direct send happens
 * only while the socket has nothing queued; what the kernel does not take at once goes through the socket, and direct
 * sending rests until that has left.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { DirectSend } from "./direct_send.ts";
import {
  endTerminated,
  idleSocket,
  putHead,
  putTerminator,
  TERMINATOR_BYTES,
  unsentHead,
} from "./own_response.ts";
import type { RingTarget, SendRing } from "./send_ring.ts";
import type { Egress, SinkHost, SseSink } from "./sink.ts";

/** How a {@linkcode SocketSink} gets past the socket, where the connection allows it. */
export type DirectWay = "none" | "send" | SendRing;

/** {@linkcode SseSink} on a `node:net` socket. */
export class SocketSink implements SseSink, RingTarget {
  // What every chunk touches comes first, to lie together: it is cold each time, as in `IngressSlot`.
  /** The head, until it has left or the response has been told to send it; "" then, and where it always does. */
  #head: string;
  /** The ring's turn that our last send is part of: while that is its current one, the send waits there. */
  #turn = -1;
  /** Null until the socket is ours, after `release`, and where there is no such way. */
  #direct: DirectSend | null = null;
  readonly #ring: SendRing | null;
  /** The socket may have bytes queued: it is asked before the next chunk. Asking costs, so it is not done for each. */
  #isQueued = true;
  #blocked = false;
  /** The last chunk and the end of the body have been given to the kernel. */
  #isEnding = false;

  readonly headRoom: number;
  readonly #response: ServerResponse;
  readonly #onDrain: () => void;
  readonly #host: SinkHost;
  readonly #way: DirectWay;
  readonly #ownsEnd: boolean;
  /** Null until it is ours, and after `release`. */
  #socket: Socket | null = null;
  #hasWritten = false;
  #isHeadSent = false;
  #isReleased = false;

  /** @param ownsHead whether head and end may go past the response, on a direct way */
  constructor(response: ServerResponse, host: SinkHost, way: DirectWay, ownsHead: boolean) {
    this.#response = response;
    this.#head = ownsHead && way !== "none" ? unsentHead(response) : "";
    this.headRoom = this.#head.length;
    this.#ownsEnd = ownsHead;
    this.#host = host;
    this.#way = way;
    this.#ring = typeof way === "string" ? null : way;
    this.#onDrain = () => {
      this.#blocked = false;
      host.onWritable();
    };
  }

  prefetch(): number {
    return (this.#direct === null ? 0 : this.#direct.descriptor) ^ (this.#blocked ? 1 : 0);
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
    if (this.#head !== "") frameStart = this.#takeOver(buffer, frameStart);
    this.#settleTurn();
    if (this.#isQueued) {
      const socket = this.#socket;
      if (socket === null) return this.#writeOpening(buffer, dataStart, dataEnd);
      if (socket.destroyed) return true;
      this.#isQueued = socket.writableLength > 0;
    }
    // The way of nearly every token: the socket has not been asked. One that has been destroyed may still take it, until
    // its `close` event; whoever destroys a response writes no more to it, and nobody else is there to be harmed.
    if (this.#direct !== null && !this.#isQueued) {
      if (this.#ring !== null) {
        this.#sendByRing(buffer, frameStart, frameEnd);
        return !this.#blocked;
      }
      frameStart += this.#direct.send(buffer.subarray(frameStart, frameEnd));
      if (frameStart === frameEnd) return true;
    }
    // Not null: only a socket makes `#isQueued` false.
    const socket = this.#socket!;
    if (socket.destroyed) return true;
    return this.#writeToSocket(socket, buffer, frameStart, frameEnd);
  }

  writeLast(
    buffer: Uint8Array<ArrayBuffer>,
    frameStart: number,
    dataStart: number,
    dataEnd: number,
    frameEnd: number,
  ): void {
    if (this.#head !== "") frameStart = this.#takeOver(buffer, frameStart);
    this.#settleTurn();
    const isDirect = this.#ownsEnd && this.#direct !== null && !this.#socket!.destroyed &&
      this.#socket!.writableLength === 0;
    if (!isDirect) {
      this.write(buffer, frameStart, dataStart, dataEnd, frameEnd);
      return this.end();
    }
    this.#isEnding = true;
    const end = putTerminator(buffer, frameEnd);
    if (this.#ring !== null) {
      this.#sendByRing(buffer, frameStart, end);
    } else {
      this.#onLastSent(this.#direct!.send(buffer.subarray(frameStart, end)), buffer, frameStart, end);
    }
  }

  onSent(sent: number, buffer: Uint8Array<ArrayBuffer>, start: number, end: number): void {
    try {
      this.#takeResult(sent, buffer, start, end);
    } catch (caught) {
      this.#host.writeFailed(caught);
    }
  }

  #takeResult(sent: number, buffer: Uint8Array<ArrayBuffer>, start: number, end: number): void {
    if (this.#isEnding) return this.#onLastSent(sent, buffer, start, end);
    if (sent === end - start) return;
    const socket = this.#socket;
    if (socket === null || socket.destroyed) return;
    // Whatever the error was, the socket's own write meets it again and reports it.
    if (!this.#writeToSocket(socket, buffer, start + Math.max(0, sent), end)) this.#host.onBlocked();
  }

  end(): void {
    this.#settleTurn();
    this.#response.end();
    this.release();
  }

  release(): void {
    // While the descriptor is still this connection's: whoever releases may destroy it next.
    this.#settleTurn();
    this.#isReleased = true;
    this.#head = "";
    this.#response.off("drain", this.#onDrain);
    this.#socket?.off("drain", this.#onDrain);
    this.#socket = null;
    this.#direct = null;
    // A late write then looks for the socket, and finds none.
    this.#isQueued = true;
  }

  /** Has a send that waits in the ring done, before anything else happens to the connection. */
  #settleTurn(): void {
    if (this.#ring !== null && this.#ring.turn === this.#turn) this.#ring.submit();
  }

  /** Takes the connection over, with the head put in front of the first frame; or leaves it to the response. */
  #takeOver(buffer: Uint8Array<ArrayBuffer>, frameStart: number): number {
    const head = this.#head;
    this.#head = "";
    // A caller that has left no room has its head sent by the response.
    const socket = frameStart < head.length ? null : idleSocket(this.#response);
    const direct = socket === null ? null : DirectSend.of(socket);
    if (direct === null) return frameStart;
    this.#socket = socket;
    this.#direct = direct;
    this.#isQueued = false;
    return putHead(this.#response, head, buffer, frameStart);
  }

  #onLastSent(sent: number, buffer: Uint8Array<ArrayBuffer>, start: number, end: number): void {
    const socket = this.#socket;
    const rest = start + Math.max(0, sent);
    const bodyEnd = end - TERMINATOR_BYTES;
    if (rest < end && socket !== null && !socket.destroyed) {
      // What the response writes itself it waits for: a client that takes nothing does not count as served.
      this.#writeToSocket(socket, buffer, rest, rest <= bodyEnd ? bodyEnd : end);
    }
    if (rest <= bodyEnd) this.#response.end();
    else endTerminated(this.#response);
    this.release();
  }

  #writeToSocket(socket: Socket, buffer: Uint8Array<ArrayBuffer>, start: number, end: number): boolean {
    // What has to wait must not keep the whole buffer alive, which on a direct way is used again after the flush.
    const mustCopy = this.#isQueued || this.#way !== "none";
    const frame = mustCopy ? buffer.slice(start, end) : buffer.subarray(start, end);
    this.#isQueued = true;
    if (socket.write(frame)) return true;
    if (!this.#blocked) {
      this.#blocked = true;
      socket.once("drain", this.#onDrain);
    }
    return false;
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
    if (this.#way !== "none" && this.#socket !== null) this.#direct = DirectSend.of(this.#socket);
  }

  /** The descriptor is asked for each time: once the connection has closed it is -1, and the kernel refuses that. */
  #sendByRing(buffer: Uint8Array<ArrayBuffer>, start: number, end: number): void {
    const ring = this.#ring!;
    this.#turn = ring.turn;
    ring.send(this.#direct!.descriptor, buffer, start, end, this, this.#isEnding);
  }
}

/** {@linkcode Egress} by the socket's own writes. */
export const socketEgress: Egress = socketWay("socket", "none", false);

/** {@linkcode Egress} by one `send` per chunk. */
export function directEgress(ownsHead: boolean): Egress {
  return socketWay("ffi", "send", ownsHead);
}

/** {@linkcode Egress} by the sends of a ring. */
export function ringEgress(ring: SendRing, ownsHead: boolean): Egress {
  return socketWay("ring", ring, ownsHead);
}

function socketWay(name: Egress["name"], way: DirectWay, ownsHead: boolean): Egress {
  const ring = typeof way === "string" ? null : way;
  return Object.freeze({
    name,
    keepsChunks: way === "none",
    sink: (response: ServerResponse, host: SinkHost) => new SocketSink(response, host, way, ownsHead),
    beginFlush: () => ring?.begin(),
    endFlush: () => ring?.flush(),
  });
}
