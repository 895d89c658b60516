/**
 * One ordered lane to a peer: a succession of connections, each an *epoch* of its own.
 *
 * A connection is dialled when something is sent and none is up. When it dies, what was queued for it is dropped,
 * what waited fails, the owner is told, and only then may a successor carry anything: nothing that was meant for the
 * old connection rides the new one.
 */
import { TokenplaneError } from "../../src/errors.ts";
import { AdmissionGate } from "../admission.ts";
import { type Admission, MessageType } from "../contract.ts";
import { FrameReader } from "./frame_reader.ts";
import type { Endpoint } from "./endpoints.ts";
import { SendQueue } from "./send_queue.ts";
import { closeQuietly, type Socket, tuneSocket } from "./socket.ts";
import { SocketWriter } from "./socket_writer.ts";
import type { TcpSettings } from "./tcp_options.ts";
import type { TcpStats } from "./tcp_stats.ts";

/** A dialled connection only ever brings refused headers back, so its read buffer starts small. Bytes. */
const BACKWARD_BUFFER_BYTES = 4_096;

/** What a lane tells its owner. */
export interface LaneEvents {
  /** The connection is gone and every pending admission has failed. */
  onLost(reason: string): void;
  /** The peer refused a frame of ours. */
  onShuttingDown(header: Uint8Array): void;
}

interface WaitingFrame {
  readonly type: MessageType;
  readonly header: Uint8Array;
  readonly parts: readonly Uint8Array[];
  readonly payloadBytes: number;
}

/** One connection's worth of state; the queue is its own, so nothing queued for it can ride a successor. */
interface Epoch {
  readonly queue: SendQueue;
  readonly abort: AbortController;
  /** Resolves when dialling has ended, well or not. */
  readonly dialled: PromiseWithResolvers<void>;
  /** Null while dialling. */
  socket: Socket | null;
  writer: SocketWriter | null;
  /** Settles when the connection's reader has ended. */
  readEnd: Promise<void>;
}

/** See the head of this file. */
export class Lane {
  readonly #settings: TcpSettings;
  readonly #stats: TcpStats;
  readonly #events: LaneEvents;
  readonly #endpoint: () => Endpoint;
  readonly #gate: AdmissionGate<WaitingFrame>;
  #epoch: Epoch | null = null;
  /** True while a dead connection is being told about: sends wait, nothing is dialled. */
  #isDying = false;
  #isClosed = false;

  /** @param endpoint where the peer is now, asked at each dial */
  constructor(settings: TcpSettings, stats: TcpStats, endpoint: () => Endpoint, events: LaneEvents) {
    this.#settings = settings;
    this.#stats = stats;
    this.#events = events;
    this.#endpoint = endpoint;
    this.#gate = new AdmissionGate((frame) => this.#tryPush(frame), settings.onBug);
  }

  /** Whether a connection is established. */
  get isUp(): boolean {
    return this.#epoch?.socket != null;
  }

  /** As `Transport.send`; sizes have been checked. */
  send(
    type: MessageType,
    header: Uint8Array,
    parts: readonly Uint8Array[],
    payloadBytes: number,
    admission: Admission | undefined,
  ): boolean {
    if (this.#epoch === null && !this.#isDying && !this.#isClosed) this.#dial();
    if (this.#gate.waiting === 0 && this.#push(type, header, parts, payloadBytes)) return true;
    this.#stats.backpressure++;
    if (this.#isClosed && !this.#isDying) {
      if (admission !== undefined) queueMicrotask(() => admission(closedError()));
      return false;
    }
    this.#gate.append({ type, header, parts, payloadBytes }, admission ?? null);
    return false;
  }

  /** Ends the connection, if any, as if it had died; the next send dials anew. */
  retire(reason: string): void {
    if (this.#epoch !== null) this.#die(this.#epoch, reason);
  }

  /** Resolves when all that is admitted or waits has been written, or the connection has died. */
  async drain(): Promise<void> {
    for (let epoch = this.#epoch; epoch !== null; epoch = this.#epoch) {
      await epoch.dialled.promise;
      await epoch.writer?.idle();
      if (this.#epoch === epoch && epoch.queue.frames === 0 && this.#gate.waiting === 0) return;
    }
  }

  /** Tells the peer that nothing more comes and resolves when it has hung up too. */
  async finish(): Promise<void> {
    const epoch = this.#epoch;
    if (epoch?.socket == null) return;
    this.#isClosed = true;
    try {
      await epoch.socket.closeWrite();
    } catch {
      // It died meanwhile; its reader says so.
    }
    await epoch.readEnd;
  }

  /** Closes for good. */
  close(reason: string): Promise<void> {
    this.#isClosed = true;
    const readEnd = this.#epoch?.readEnd;
    this.retire(reason);
    return readEnd ?? Promise.resolve();
  }

  #push(type: MessageType, header: Uint8Array, parts: readonly Uint8Array[], payloadBytes: number): boolean {
    const epoch = this.#epoch;
    if (epoch === null || this.#isDying) return false;
    if (!epoch.queue.tryPush(type, header, parts, payloadBytes)) return false;
    this.#stats.framesOut[type]!++;
    this.#stats.bytesOut[type]! += header.length + payloadBytes;
    epoch.writer?.kick();
    return true;
  }

  #tryPush(frame: WaitingFrame): boolean {
    return this.#push(frame.type, frame.header, frame.parts, frame.payloadBytes);
  }

  #dial(): void {
    const epoch: Epoch = {
      queue: new SendQueue(this.#settings.queue, this.#settings.now),
      abort: new AbortController(),
      dialled: Promise.withResolvers(),
      socket: null,
      writer: null,
      readEnd: Promise.resolve(),
    };
    this.#epoch = epoch;
    epoch.readEnd = this.#run(epoch);
  }

  /** The life of one connection: dial, then read until it ends. Never rejects. */
  async #run(epoch: Epoch): Promise<void> {
    const socket = await this.#connect(epoch);
    if (socket === null) {
      epoch.dialled.resolve();
      return;
    }
    const writer = new SocketWriter(
      socket,
      epoch.queue,
      {
        onRoom: () => this.#gate.pump(),
        onWriteFailed: (caught) => this.#die(epoch, `write failed: ${messageOf(caught)}`),
      },
      this.#stats,
      this.#settings.now,
    );
    epoch.writer = writer;
    if (epoch.queue.frames > 0) writer.kick();
    epoch.dialled.resolve();
    let reason = "closed by the peer";
    try {
      await this.#readBackward(epoch, socket);
    } catch (caught) {
      reason = messageOf(caught);
    }
    this.#die(epoch, reason);
  }

  /** Null when the connection did not come up or is no longer wanted. */
  async #connect(epoch: Epoch): Promise<Socket | null> {
    const { clock, dialTimeoutMs, sockets } = this.#settings;
    const { host, port } = this.#endpoint();
    const timer = clock.setTimer(() => {
      this.#die(epoch, `cannot connect to ${host}:${port}: no answer within ${dialTimeoutMs} ms`);
    }, dialTimeoutMs);
    this.#stats.dials++;
    try {
      const socket = await sockets.connect(host, port, epoch.abort.signal);
      if (this.#epoch === epoch) {
        epoch.socket = socket;
        this.#stats.connections++;
        tuneSocket(socket);
        return socket;
      }
      closeQuietly(socket);
    } catch (caught) {
      this.#stats.dialFailures++;
      this.#die(epoch, `cannot connect to ${host}:${port}: ${messageOf(caught)}`);
    } finally {
      clock.clearTimer(timer);
    }
    return null;
  }

  /** Reads what the peer refuses; resolves at the end of input. Throws on anything that does not belong here. */
  async #readBackward(epoch: Epoch, socket: Socket): Promise<void> {
    const reader = new FrameReader({ initialBytes: BACKWARD_BUFFER_BYTES });
    const onFrame = (type: MessageType, header: Uint8Array): boolean => {
      if (type !== MessageType.shuttingDown) {
        throw new TokenplaneError("protocol", `Cannot take frame of type ${type} on a dialled connection`);
      }
      this.#tell(() => this.#events.onShuttingDown(header));
      return this.#epoch === epoch;
    };
    for (;;) {
      const count = await socket.read(reader.space());
      if (count === null || this.#epoch !== epoch) return;
      if (!reader.take(count, onFrame)) return;
    }
  }

  #die(epoch: Epoch, reason: string): void {
    if (this.#epoch !== epoch) return;
    this.#epoch = null;
    this.#isDying = true;
    epoch.writer?.stop();
    epoch.abort.abort();
    if (epoch.socket !== null) {
      closeQuietly(epoch.socket);
      this.#stats.connections--;
    }
    this.#stats.lanesLost++;
    this.#gate.failAll(new TokenplaneError("connection", `Cannot send frame: ${reason}`));
    this.#tell(() => this.#events.onLost(reason));
    this.#isDying = false;
    if (this.#gate.waiting === 0) return;
    if (this.#isClosed) {
      this.#gate.failAll(closedError());
      return;
    }
    this.#dial();
    this.#gate.pump();
  }

  #tell(event: () => void): void {
    try {
      event();
    } catch (caught) {
      this.#settings.onBug(caught);
    }
  }
}

function closedError(): TokenplaneError {
  return new TokenplaneError("connection", "Cannot send frame: the lane is closed");
}

function messageOf(caught: unknown): string {
  return caught instanceof Error ? caught.message : String(caught);
}
