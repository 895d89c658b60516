/** One ordered lane of the in-memory network: a succession of pipes, each an epoch, with the rules of a TCP lane. */
import { type ErrorCode, TokenplaneError } from "../../src/errors.ts";
import type { TimerHandle } from "../../src/clock.ts";
import { AdmissionGate, type BugReport } from "../admission.ts";
import type { Admission, InboundConnection, InstanceId, MessageType } from "../contract.ts";
import type { MemoryNetwork } from "./memory_network.ts";
import { type MemoryFrame, MemoryPipe } from "./memory_pipe.ts";
import type { MemoryTransport } from "./memory_transport.ts";

interface WaitingFrame {
  readonly type: MessageType;
  readonly header: Uint8Array;
  readonly parts: readonly Uint8Array[];
}

interface Epoch {
  readonly pipe: MemoryPipe;
  dialTimer: TimerHandle;
  /** Null while dialling. */
  inbound: { readonly connection: InboundConnection; readonly at: MemoryTransport } | null;
}

/** See the head of this file. */
export class MemoryLane {
  readonly peer: InstanceId;
  readonly index: number;
  readonly from: MemoryTransport;
  readonly #network: MemoryNetwork;
  readonly #target: () => string;
  readonly #gate: AdmissionGate<WaitingFrame>;
  #epoch: Epoch | null = null;
  #isDying = false;
  #isClosed = false;
  #isPaused = false;

  /** @param target name of the transport to dial, asked at each dial */
  constructor(
    network: MemoryNetwork,
    from: MemoryTransport,
    peer: InstanceId,
    index: number,
    target: () => string,
    onBug: BugReport,
  ) {
    this.#network = network;
    this.from = from;
    this.peer = peer;
    this.index = index;
    this.#target = target;
    this.#gate = new AdmissionGate((frame) => this.#push(frame), onBug);
  }

  get isUp(): boolean {
    return this.#epoch?.inbound != null;
  }

  /** Name of the transport at the other end. */
  get targetName(): string {
    return this.#target();
  }

  /** Nothing waits, is queued or on the way. */
  get isIdle(): boolean {
    return this.#gate.waiting === 0 && (this.#epoch === null || this.#epoch.pipe.isEmpty);
  }

  /** As `Transport.send`; sizes have been checked. */
  send(
    type: MessageType,
    header: Uint8Array,
    parts: readonly Uint8Array[],
    admission: Admission | undefined,
  ): boolean {
    if (this.#isClosed && !this.#isDying) {
      queueMicrotask(() => admission?.(lost("closed", "the lane is closed")));
      return false;
    }
    if (this.#epoch === null && !this.#isDying) this.#dial();
    if (this.#gate.send({ type, header, parts }, admission ?? null) === null) return true;
    this.from.stats.backpressure++;
    return false;
  }

  /** The receiver reads no more, or again. Holds for later connections of this lane too. */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused;
    this.#applyPause();
  }

  /** Re-reads whether the network lets anything through. */
  onNetworkChanged(): void {
    this.#applyPause();
  }

  /** Ends the connection. Of what is on the wire the first `arriving` frames still arrive; the rest is lost. */
  cut(reason: string, arriving: (onWire: number) => number = () => 0): void {
    const epoch = this.#epoch;
    if (epoch === null) return;
    const onWire = epoch.pipe.cut();
    const inbound = epoch.inbound;
    if (inbound !== null) {
      const survivors = onWire.slice(0, arriving(onWire.length));
      if (survivors.length > 0) inbound.at.receive(inbound.connection, survivors, this);
      inbound.at.forget(inbound.connection, reason);
    }
    this.#die(epoch, reason);
  }

  /** Closes for good. */
  close(reason: string): void {
    this.#isClosed = true;
    this.cut(reason);
  }

  /** A refused header comes back over this lane. */
  refuse(header: Uint8Array): void {
    const copy = header.slice();
    const epoch = this.#epoch;
    this.#network.clock.setTimer(() => {
      if (this.#epoch === epoch) this.from.tell((sink) => sink.onShuttingDown(this.peer, copy));
    }, this.#network.delayMs);
  }

  #push(frame: WaitingFrame): boolean {
    const epoch = this.#epoch;
    if (epoch === null || this.#isDying) return false;
    const copied: MemoryFrame = {
      type: frame.type,
      header: frame.header.slice(),
      payload: join(frame.parts),
    };
    if (!epoch.pipe.tryPush(copied)) return false;
    this.from.countOut(frame.type, copied.header.length + copied.payload.length);
    return true;
  }

  #dial(): void {
    const network = this.#network;
    const epoch: Epoch = {
      pipe: new MemoryPipe(network.pipeSettings, {
        onRoom: () => this.#gate.pump(),
        onArrival: (frames) => {
          const inbound = epoch.inbound;
          if (inbound !== null) inbound.at.receive(inbound.connection, frames, this);
        },
      }),
      dialTimer: null,
      inbound: null,
    };
    this.#epoch = epoch;
    const isReachable = network.isReachable(this.from.name, this.#target());
    const wait = isReachable ? network.delayMs : network.dialTimeoutMs;
    epoch.dialTimer = network.clock.setTimer(() => this.#connect(epoch), wait);
  }

  #connect(epoch: Epoch): void {
    if (this.#epoch !== epoch) return;
    const name = this.#target();
    const at = this.#network.find(name);
    if (at === undefined || !this.#network.isReachable(this.from.name, name)) {
      this.#die(epoch, `cannot connect to "${name}"`);
      return;
    }
    epoch.inbound = { connection: at.accept(this), at };
    this.from.stats.connections++;
    this.#applyPause();
    epoch.pipe.open();
  }

  #applyPause(): void {
    const isBlocked = !this.#network.isReachable(this.from.name, this.#target());
    this.#epoch?.pipe.setPaused(this.#isPaused || isBlocked);
  }

  #die(epoch: Epoch, reason: string): void {
    if (this.#epoch !== epoch) return;
    this.#epoch = null;
    this.#isDying = true;
    this.#network.clock.clearTimer(epoch.dialTimer);
    if (epoch.inbound !== null) this.from.stats.connections--;
    this.#gate.failAll(lost("connection", reason));
    this.from.tell((sink) => sink.onLaneLost(this.peer, this.index, reason));
    this.#isDying = false;
    if (this.#gate.waiting === 0) return;
    if (this.#isClosed) {
      this.#gate.failAll(lost("connection", "the lane is closed"));
      return;
    }
    this.#dial();
    this.#gate.pump();
  }
}

function lost(code: ErrorCode, reason: string): TokenplaneError {
  return new TokenplaneError(code, `Cannot send frame: ${reason}`);
}

function join(parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}
