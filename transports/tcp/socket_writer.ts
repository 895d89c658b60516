/** The one writer of a socket: takes chunks from the queue and writes each in full, in order. */
import type { Chunk, SendQueue } from "./send_queue.ts";
import type { Socket } from "./socket.ts";
import type { TcpStats } from "./tcp_stats.ts";

/** What a {@linkcode SocketWriter} tells its owner. */
export interface WriterEvents {
  /** A chunk has left the queue: there is room again. */
  onRoom(): void;
  /** A write failed; the writer has stopped. */
  onWriteFailed(caught: unknown): void;
}

/** Writes what is in the queue; starts by itself one microtask after `kick`, so that a burst shares a write. */
export class SocketWriter {
  readonly #socket: Socket;
  readonly #queue: SendQueue;
  readonly #events: WriterEvents;
  readonly #stats: TcpStats;
  readonly #now: () => number;
  #running = false;
  #stopped = false;
  #onIdle: (() => void) | null = null;

  constructor(socket: Socket, queue: SendQueue, events: WriterEvents, stats: TcpStats, now: () => number) {
    this.#socket = socket;
    this.#queue = queue;
    this.#events = events;
    this.#stats = stats;
    this.#now = now;
  }

  /** Something was queued. */
  kick(): void {
    if (this.#running || this.#stopped) return;
    this.#running = true;
    queueMicrotask(this.#start);
  }

  /** Writes nothing more; a write under way may still finish. */
  stop(): void {
    this.#stopped = true;
    this.#reportIdle();
  }

  /** Resolves when everything queued so far and meanwhile has been written, or the writer has stopped. */
  idle(): Promise<void> {
    if (this.#stopped || (!this.#running && this.#queue.frames === 0)) return Promise.resolve();
    return new Promise((resolve) => {
      const before = this.#onIdle;
      this.#onIdle = () => {
        before?.();
        resolve();
      };
    });
  }

  readonly #start = (): void => void this.#run();

  async #run(): Promise<void> {
    try {
      while (!this.#stopped) {
        const chunk = this.#queue.take();
        if (chunk === null) break;
        this.#events.onRoom();
        const begin = this.#now();
        await this.#writeAll(chunk.bytes, chunk.length);
        this.#count(chunk, begin - chunk.since, this.#now() - begin);
        this.#queue.recycle(chunk);
      }
    } catch (caught) {
      if (!this.#stopped) {
        this.#stopped = true;
        this.#events.onWriteFailed(caught);
      }
    } finally {
      this.#running = false;
      this.#reportIdle();
    }
  }

  #count(chunk: Chunk, queueWaitMs: number, writeMs: number): void {
    const stats = this.#stats;
    stats.queueWaitMs += queueWaitMs;
    stats.writeMs += writeMs;
    stats.writes++;
    stats.framesWritten += chunk.frames;
    for (let type = 0; type < chunk.framesByType.length; type++) {
      stats.framesWrittenByType[type]! += chunk.framesByType[type]!;
    }
    stats.bytesWritten += chunk.length;
    stats.onWrite?.(queueWaitMs, writeMs);
  }

  /** `write` may take a part only: go on until the last byte is gone. */
  async #writeAll(bytes: Uint8Array<ArrayBuffer>, length: number): Promise<void> {
    let at = 0;
    while (at < length) {
      const written = await this.#socket.write(bytes.subarray(at, length));
      if (written <= 0) throw new Error(`Cannot write to socket: it took ${written} of ${length - at} bytes`);
      at += written;
    }
  }

  #reportIdle(): void {
    const onIdle = this.#onIdle;
    this.#onIdle = null;
    onIdle?.();
  }
}
