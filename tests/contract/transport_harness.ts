/** What a transport has to bring along for the contract suite, and what the suite records. */
import type { TokenplaneError } from "../../src/errors.ts";
import {
  type FrameSink,
  type InboundConnection,
  type InstanceId,
  MessageType,
  type Transport,
  type TransportStats,
} from "../../transports/contract.ts";

/** Options that the suite asks for; what a transport has no notion of it ignores. */
export interface NodeOptions {
  lanes?: number;
  queueFrames?: number;
  onBug?: (caught: unknown) => void;
}

/** One network for one test. */
export interface TransportHarness {
  /** A transport that has not started. */
  transport(options?: NodeOptions): Transport & { readonly stats: TransportStats };
  /** An address at which nobody listens. */
  deadEntry(): Uint8Array;
  /** The receiver of this connection stops reading; the function returned lets it go on. */
  pause(at: Transport, from: InboundConnection): () => void;
  /** Lets time pass until the condition holds. Throws after a few seconds. */
  until(condition: () => boolean, what: string): Promise<void>;
  /** Lets time pass until the promise settles. */
  run<T>(promise: Promise<T>): Promise<T>;
  /** Lets a moment pass: long enough for anything wrong to show. */
  linger(): Promise<void>;
}

/** One frame as it came. */
export interface SeenFrame {
  readonly from: InboundConnection;
  readonly type: MessageType;
  readonly header: Uint8Array;
  readonly payload: Uint8Array;
}

/** A sink that keeps everything. */
export class RecordingSink implements FrameSink {
  readonly frames: SeenFrame[] = [];
  readonly closed: InboundConnection[] = [];
  readonly lost: { peer: InstanceId; lane: number; reason: string }[] = [];
  readonly refused: { peer: InstanceId; header: Uint8Array }[] = [];
  reads = 0;
  onEachFrame: ((frame: SeenFrame) => void) | null = null;
  onEachLost: ((peer: InstanceId, lane: number) => void) | null = null;

  onFrame(from: InboundConnection, type: MessageType, header: Uint8Array, payload: Uint8Array): void {
    const frame = { from, type, header: header.slice(), payload: payload.slice() };
    this.frames.push(frame);
    this.onEachFrame?.(frame);
  }

  onReadEnd(): void {
    this.reads++;
  }

  onInboundClosed(from: InboundConnection): void {
    this.closed.push(from);
  }

  onLaneLost(peer: InstanceId, lane: number, reason: string): void {
    this.lost.push({ peer, lane, reason });
    this.onEachLost?.(peer, lane);
  }

  onShuttingDown(peer: InstanceId, header: Uint8Array): void {
    this.refused.push({ peer, header: header.slice() });
  }
}

/** A started node. */
export interface Node {
  readonly id: InstanceId;
  readonly transport: Transport & { readonly stats: TransportStats };
  readonly sink: RecordingSink;
}

/** 4 bytes that say `n`. */
export function numbered(n: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, n);
  return bytes;
}

/** What {@linkcode numbered} said. */
export function numberIn(bytes: Uint8Array): number {
  return new DataView(bytes.buffer, bytes.byteOffset).getUint32(0);
}

/** One test's nodes. */
export class Context {
  readonly harness: TransportHarness;
  readonly #nodes: Node[] = [];

  constructor(harness: TransportHarness) {
    this.harness = harness;
  }

  async node(options: NodeOptions = {}): Promise<Node> {
    const transport = this.harness.transport(options);
    const sink = new RecordingSink();
    await transport.start(sink);
    const node = { id: crypto.randomUUID(), transport, sink };
    this.#nodes.push(node);
    return node;
  }

  /** Two nodes, the first of which knows the second. */
  async pair(options: NodeOptions = {}): Promise<[Node, Node]> {
    const [a, b] = [await this.node(options), await this.node(options)];
    a.transport.register(b.id, b.transport.addressEntry());
    return [a, b];
  }

  arrived(node: Node, count: number): Promise<void> {
    return this.harness.until(() => node.sink.frames.length >= count, `${count} frames`);
  }

  async close(): Promise<void> {
    await this.harness.run(Promise.all(this.#nodes.map((node) => node.transport.shutdown(200))));
  }
}

/** One scenario of the suite. */
export type Scenario = [title: string, body: (t: Context) => Promise<void>];

/** A header like any other. */
export const HEADER: Uint8Array = new Uint8Array([1, 2, 3]);

/** Sends and resolves with what its admission says. */
export function sendError(
  from: Node,
  peer: string,
  lane: number,
  parts: Uint8Array[],
): Promise<TokenplaneError | null> {
  return new Promise((resolve) => {
    if (from.transport.send(peer, lane, MessageType.message, HEADER, parts, resolve)) resolve(null);
  });
}
