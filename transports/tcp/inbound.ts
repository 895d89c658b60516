/** One accepted connection: its read loop, and the way back for frames that a draining node refuses. */
import type { BugReport } from "../admission.ts";
import { type FrameSink, type InboundConnection, MessageType } from "../contract.ts";
import { countRejection } from "../stats.ts";
import { FrameReader, type FrameReaderOptions } from "./frame_reader.ts";
import type { ReadEnds } from "./read_ends.ts";
import { SendQueue, type SendQueueLimits } from "./send_queue.ts";
import { closeQuietly, type Socket } from "./socket.ts";
import { SocketWriter } from "./socket_writer.ts";
import type { TcpStats } from "./tcp_stats.ts";
import type { TurnBudget } from "./turn_budget.ts";

/** What all inbound connections of a transport share. */
export interface InboundContext {
  readonly sink: FrameSink;
  readonly stats: TcpStats;
  readonly reader: FrameReaderOptions;
  readonly refusals: SendQueueLimits;
  readonly now: () => number;
  readonly turns: TurnBudget;
  readonly readEnds: ReadEnds;
  readonly onBug: BugReport;
  /** Null while the node is not draining. */
  exempt: ((header: Uint8Array) => boolean) | null;
}

/** A read that takes at least this long had to wait: nothing had been left unread. */
const MIN_WAIT_MS = 1;
const NO_PARTS: readonly Uint8Array[] = [];

/** See the head of this file. */
export class Inbound implements InboundConnection {
  readonly id: number;
  readonly remote: string;
  attachment: unknown = undefined;
  readonly #socket: Socket;
  readonly #context: InboundContext;
  #closeReason: string | null = null;
  /** When the read that is under way began; infinite while there is none. */
  #askedMs = Infinity;
  /** The work of all readers until then. */
  #askedAtWorkMs = 0;
  #caughtUpMs = 0;
  #refusals: { queue: SendQueue; writer: SocketWriter } | null = null;

  constructor(id: number, socket: Socket, context: InboundContext) {
    this.id = id;
    this.remote = `${socket.remoteAddr.hostname}:${socket.remoteAddr.port}`;
    this.#socket = socket;
    this.#context = context;
  }

  caughtUpAt(): number {
    const nowMs = this.#context.now();
    return this.#waitedMs(nowMs) >= MIN_WAIT_MS ? nowMs : this.#caughtUpMs;
  }

  close(reason: string): void {
    if (this.#closeReason !== null) return;
    this.#closeReason = reason;
    this.#refusals?.writer.stop();
    closeQuietly(this.#socket);
  }

  /** Reads until the connection ends, then tells the sink. Never rejects. Called once. */
  async run(): Promise<void> {
    const { sink, stats, now, turns, readEnds } = this.#context;
    const reader = new FrameReader(this.#context.reader);
    let reason = "closed by the peer";
    try {
      for (;;) {
        const askedMs = this.#askedMs = now();
        this.#askedAtWorkMs = turns.workMs;
        const count = await this.#socket.read(reader.space());
        // A read that finds bytes waiting answers at once.
        if (this.#waitedMs(now()) >= MIN_WAIT_MS) this.#caughtUpMs = askedMs;
        this.#askedMs = Infinity;
        if (this.#closeReason !== null) break;
        if (count === null) {
          if (reader.pendingBytes > 0) {
            countRejection(stats, "cut_frame");
            reason = "closed by the peer inside a frame";
          }
          break;
        }
        const startedMs = now();
        const goOn = this.#take(reader, count);
        turns.count(now() - startedMs);
        await readEnds.note();
        if (!goOn) break;
        const turn = turns.next();
        if (turn !== null) await turn;
      }
    } catch (caught) {
      reason = caught instanceof Error ? caught.message : String(caught);
    }
    this.close(reason);
    this.#tell(() => sink.onInboundClosed(this, this.#closeReason ?? reason));
  }

  /** How long the read that is under way has waited for bytes: what others' bytes took meanwhile is no wait. */
  #waitedMs(nowMs: number): number {
    return nowMs - this.#askedMs - (this.#context.turns.workMs - this.#askedAtWorkMs);
  }

  #tell(event: () => void): void {
    try {
      event();
    } catch (caught) {
      this.#context.onBug(caught);
    }
  }

  #take(reader: FrameReader, count: number): boolean {
    try {
      return reader.take(count, this.#onFrame);
    } catch (caught) {
      countRejection(this.#context.stats, "decode_error");
      this.close(caught instanceof Error ? caught.message : String(caught));
      return false;
    }
  }

  readonly #onFrame = (type: MessageType, header: Uint8Array, payload: Uint8Array): boolean => {
    const { sink, stats, exempt, onBug } = this.#context;
    stats.framesIn[type]!++;
    stats.bytesIn[type]! += header.length + payload.length;
    if (exempt !== null && type === MessageType.message && !exempt(header)) {
      countRejection(stats, "drain_rejected");
      this.#refuse(header);
    } else {
      try {
        sink.onFrame(this, type, header, payload);
      } catch (caught) {
        onBug(caught);
      }
    }
    return this.#closeReason === null;
  };

  /** Sends a refused header back. A peer that keeps asking and does not read the answers is cut off. */
  #refuse(header: Uint8Array): void {
    const { refusals, now, stats } = this.#context;
    if (this.#refusals === null) {
      const queue = new SendQueue(refusals, now);
      const events = {
        onRoom: () => {},
        onWriteFailed: () => this.close("cannot send refusals back"),
      };
      this.#refusals = { queue, writer: new SocketWriter(this.#socket, queue, events, stats, now) };
    }
    const { queue, writer } = this.#refusals;
    if (!queue.tryPush(MessageType.shuttingDown, header, NO_PARTS, 0)) {
      this.close("it does not read refusals");
      return;
    }
    stats.framesOut[MessageType.shuttingDown]!++;
    stats.bytesOut[MessageType.shuttingDown]! += header.length;
    writer.kick();
  }
}
