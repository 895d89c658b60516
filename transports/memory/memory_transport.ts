/** One node's transport on a {@linkcode MemoryNetwork}. */
import { type ErrorCode, TokenplaneError } from "../../src/errors.ts";
import type { BugReport } from "../admission.ts";
import {
  type Admission,
  type FrameSink,
  type InboundConnection,
  type InstanceId,
  MAX_FRAME_BYTES,
} from "../contract.ts";
import { MessageType, type Transport, type TransportStats } from "../contract.ts";
import { countRejection, newTransportStats, totalBytes } from "../stats.ts";
import { MemoryLane } from "./memory_lane.ts";
import type { MemoryNetwork } from "./memory_network.ts";
import type { MemoryFrame } from "./memory_pipe.ts";

/** Options of a transport; the rest is the network's. */
export interface MemoryOptions {
  /** Its address. Default `node-<n>`. */
  name?: string;
  /** Lanes per peer. Default 4. */
  lanes?: number;
  onBug?: BugReport;
}

interface Peer {
  name: string;
  readonly lanes: (MemoryLane | undefined)[];
}

const SCHEME = "memory://";
/** How often a shutdown looks whether everything has arrived, ms. */
const DRAIN_STEP_MS = 1;

/** Implements {@linkcode Transport} in memory. */
export class MemoryTransport implements Transport {
  readonly key = "memory";
  readonly name: string;
  readonly lanes: number;
  readonly stats: TransportStats = newTransportStats();
  readonly #network: MemoryNetwork;
  readonly #onBug: BugReport;
  readonly #peers = new Map<InstanceId, Peer>();
  readonly #inbound = new Map<InboundConnection, MemoryLane>();
  #nextInboundId = 1;
  #sink: FrameSink | null = null;
  #exempt: ((header: Uint8Array) => boolean) | null = null;
  #isClosed = false;
  #isDead = false;
  #shutdown: Promise<void> | null = null;

  constructor(network: MemoryNetwork, name: string, options: MemoryOptions) {
    this.#network = network;
    this.name = name;
    this.lanes = options.lanes ?? 4;
    this.#onBug = options.onBug ?? reportError;
  }

  // Nothing here takes time, but the contract leaves other transports room for it.
  // deno-lint-ignore require-await
  async start(sink: FrameSink): Promise<void> {
    try {
      this.#network.attach(this);
    } catch (caught) {
      throw new TokenplaneError("invalid_config", (caught as Error).message, {
        scope: "process",
        cause: caught,
      });
    }
    this.#sink = sink;
  }

  addressEntry(): Uint8Array {
    return new TextEncoder().encode(SCHEME + this.name);
  }

  register(peer: InstanceId, entry: Uint8Array): void {
    const text = new TextDecoder().decode(entry);
    if (!text.startsWith(SCHEME)) {
      throw new TokenplaneError(
        "protocol",
        `Cannot read address "${text}": it does not begin with "${SCHEME}"`,
      );
    }
    const name = text.slice(SCHEME.length);
    const known = this.#peers.get(peer);
    if (known?.name === name) return;
    if (known === undefined) {
      this.#peers.set(peer, { name, lanes: [] });
    } else {
      known.name = name;
      for (const lane of known.lanes) lane?.cut("the peer has moved");
    }
    this.stats.peers = this.#peers.size;
  }

  unregister(peer: InstanceId): void {
    const known = this.#peers.get(peer);
    if (known === undefined) return;
    this.#peers.delete(peer);
    this.stats.peers = this.#peers.size;
    for (const lane of known.lanes) lane?.close("the peer was unregistered");
  }

  maxFrameBytes(_peer: InstanceId): number {
    return MAX_FRAME_BYTES;
  }

  send(
    peer: InstanceId,
    lane: number,
    type: MessageType,
    header: Uint8Array,
    parts: readonly Uint8Array[],
    admission?: Admission,
  ): boolean {
    const known = this.#peers.get(peer);
    const bytes = header.length + totalBytes(parts);
    if (this.#isClosed || this.#sink === null) {
      return this.#refuse("closed", "the transport is not running", admission);
    }
    if (known === undefined) {
      return this.#refuse("peer_unknown", `peer "${peer}" is not registered`, admission);
    }
    if (bytes > MAX_FRAME_BYTES) {
      return this.#refuse("too_large", `${bytes} bytes are over the limit of ${MAX_FRAME_BYTES}`, admission);
    }
    if (lane < 0 || lane >= this.lanes) {
      return this.#refuse("internal", `lane ${lane} does not exist`, admission);
    }
    const target = known.lanes[lane] ??= new MemoryLane(
      this.#network,
      this,
      peer,
      lane,
      () => known.name,
      this.#onBug,
    );
    return target.send(type, header, parts, admission);
  }

  beginDrain(exempt: (header: Uint8Array) => boolean): void {
    this.#exempt = exempt;
  }

  shutdown(deadlineMs: number): Promise<void> {
    this.#shutdown ??= this.#close(deadlineMs);
    return this.#shutdown;
  }

  async checkHealth(peer: InstanceId, timeoutMs: number): Promise<void> {
    const known = this.#peers.get(peer);
    if (known === undefined) {
      throw new TokenplaneError("peer_unknown", `Cannot reach peer "${peer}": not registered`);
    }
    const isReachable = this.#network.isReachable(this.name, known.name);
    await this.#sleep(isReachable ? this.#network.delayMs : timeoutMs);
    if (!this.#network.isReachable(this.name, known.name)) {
      throw new TokenplaneError("timeout", `Cannot reach peer "${peer}" within ${timeoutMs} ms`);
    }
    if (this.#network.find(known.name) === undefined) {
      throw new TokenplaneError(
        "connection",
        `Cannot reach peer "${peer}": nobody listens as "${known.name}"`,
      );
    }
  }

  /** For the network: every lane there is. */
  openLanes(): MemoryLane[] {
    return [...this.#peers.values()].flatMap((peer) => peer.lanes).filter((lane) => lane !== undefined);
  }

  /** For the network: the process died. Its sink hears nothing more. */
  abandon(): void {
    this.#isDead = true;
    this.#isClosed = true;
  }

  /** For lanes: a connection to this node is up. */
  accept(lane: MemoryLane): InboundConnection {
    const connection: InboundConnection = {
      id: this.#nextInboundId++,
      remote: `${lane.from.name}/${lane.index}`,
      attachment: undefined,
      close: (reason) => this.#inbound.get(connection)?.cut(reason),
    };
    this.#inbound.set(connection, lane);
    this.stats.connections++;
    return connection;
  }

  /** For lanes: frames arrive, as one read. */
  receive(from: InboundConnection, frames: readonly MemoryFrame[], lane: MemoryLane): void {
    if (this.#sink === null || this.#isDead) return;
    for (const frame of frames) {
      if (!this.#inbound.has(from)) break;
      this.stats.framesIn[frame.type]!++;
      this.stats.bytesIn[frame.type]! += frame.header.length + frame.payload.length;
      if (this.#exempt !== null && frame.type === MessageType.message && !this.#exempt(frame.header)) {
        countRejection(this.stats, "drain_rejected");
        lane.refuse(frame.header);
        continue;
      }
      this.tell((sink) => sink.onFrame(from, frame.type, frame.header, frame.payload));
      // As on a real socket, where the buffer is used again: a view that was kept shows it.
      frame.header.fill(0xee);
      frame.payload.fill(0xee);
    }
    this.tell((sink) => sink.onReadEnd());
  }

  /** For lanes: a connection to this node is gone. */
  forget(connection: InboundConnection, reason: string): void {
    if (!this.#inbound.delete(connection)) return;
    this.stats.connections--;
    this.tell((sink) => sink.onInboundClosed(connection, reason));
  }

  /** For lanes: a frame was admitted. */
  countOut(type: MessageType, bytes: number): void {
    this.stats.framesOut[type]!++;
    this.stats.bytesOut[type]! += bytes;
  }

  /** For lanes: tells the sink, unless the process died. */
  tell(event: (sink: FrameSink) => void): void {
    if (this.#sink === null || this.#isDead) return;
    try {
      event(this.#sink);
    } catch (caught) {
      this.#onBug(caught);
    }
  }

  #refuse(code: ErrorCode, why: string, admission: Admission | undefined): boolean {
    countRejection(this.stats, code);
    const error = new TokenplaneError(code, `Cannot send frame: ${why}`);
    if (admission !== undefined) queueMicrotask(() => admission(error));
    return false;
  }

  async #close(deadlineMs: number): Promise<void> {
    this.#isClosed = true;
    const end = this.#network.clock.now() + deadlineMs;
    const lanes = this.openLanes();
    while (!lanes.every((lane) => lane.isIdle) && this.#network.clock.now() < end) {
      await this.#sleep(DRAIN_STEP_MS);
    }
    this.#network.detach(this);
    for (const lane of lanes) lane.close("the transport shuts down");
    for (const lane of [...this.#inbound.values()]) lane.cut("the peer shut down");
    this.#peers.clear();
    this.stats.peers = 0;
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#network.clock.setTimer(resolve, ms));
  }
}
