/**
 * Muxes joined by an in-memory network in virtual time: every lane is a FIFO connection with a delay and a bounded
 * queue, which a test can stall, cut, or cut with loss. Batches travel as bytes.
 */
import type { Admission, InstanceId } from "../../transports/contract.ts";
import { TokenplaneError } from "../../src/errors.ts";
import type { AttachGrant, MuxLink } from "../../src/mux/link.ts";
import { Mux } from "../../src/mux/mux.ts";
import type { MuxOptions } from "../../src/mux/options.ts";
import type { Handle } from "../../src/stream.ts";
import type { VirtualClock } from "./virtual_clock.ts";

/** One node of the net. */
export interface NetNode {
  readonly id: InstanceId;
  readonly mux: Mux;
  readonly options: Partial<MuxOptions>;
}

interface Queued {
  readonly bytes: Uint8Array;
  readonly admission: Admission | null;
}

/** A directed lane between two nodes. */
export class NetLane {
  readonly from: NetNode;
  readonly to: NetNode;
  readonly lane: number;
  /** Batches admitted and on their way. */
  readonly wire: Uint8Array[] = [];
  readonly waiting: Queued[] = [];
  connection: number;
  stalled = false;
  /** Cut, and its ends do not know yet. */
  down = false;
  /** Batches delivered, for tests that look at them. */
  readonly delivered: Uint8Array[] = [];

  constructor(from: NetNode, to: NetNode, lane: number, connection: number) {
    this.from = from;
    this.to = to;
    this.lane = lane;
    this.connection = connection;
  }
}

/** Settings of the net. */
export interface NetOptions {
  readonly delayMs?: number;
  /** Batches that a lane takes before admissions wait. */
  readonly depth?: number;
  readonly eagerBudget?: number;
}

/** The net. */
export class MuxNet {
  /** What arrives in place of a batch, for nets with a corrupting peer. */
  tamper: ((lane: NetLane, bytes: Uint8Array) => Uint8Array[]) | null = null;
  readonly clock: VirtualClock;
  readonly nodes = new Map<InstanceId, NetNode>();
  readonly lanes = new Map<string, NetLane>();
  readonly errors: unknown[] = [];
  readonly #delayMs: number;
  readonly #depth: number;
  readonly #eagerBudget: number;
  #nextConnection = 1;
  #nextWorkerId = 1n;

  constructor(clock: VirtualClock, options: NetOptions = {}) {
    this.clock = clock;
    this.#delayMs = options.delayMs ?? 0.1;
    this.#depth = options.depth ?? 256;
    this.#eagerBudget = options.eagerBudget ?? 262_109;
  }

  /** A new node; `id` must be new. */
  add(id: InstanceId, options: Partial<MuxOptions> = {}): NetNode {
    const link: MuxLink = {
      sendBatch: (peer, lane, parts, admission) => this.#send(id, peer, lane, parts, admission),
      lanesTo: () => 16,
      eagerBudget: () => this.#eagerBudget,
      sendStop: (peer, handle, session) =>
        this.#later(() => this.nodes.get(peer)?.mux.handleStop(id, handle, session)),
      sendCancel: (peer, stream) => this.#later(() => this.nodes.get(peer)?.mux.handleCancel(id, stream)),
      attach: (peer, handle, session) => this.#attach(id, peer, handle, session),
    };
    const workerId = this.#nextWorkerId++;
    const identity = { workerId, peerInfo: { instanceId: id, workerAddress: new Uint8Array([0x80]) } };
    const mux = new Mux(this.clock, link, identity, options, { onConsumerError: (e) => this.errors.push(e) });
    const node: NetNode = { id, mux, options };
    this.nodes.set(id, node);
    return node;
  }

  lane(from: InstanceId, to: InstanceId, lane = 0): NetLane {
    const key = `${from}>${to}/${lane}`;
    let found = this.lanes.get(key);
    if (found === undefined) {
      found = new NetLane(this.nodes.get(from)!, this.nodes.get(to)!, lane, this.#nextConnection++);
      this.lanes.set(key, found);
    }
    return found;
  }

  /** Nothing of the lane is delivered and, once its queue is full, nothing admitted. */
  stall(lane: NetLane, stalled: boolean): void {
    lane.stalled = stalled;
    if (!stalled) this.#pump(lane);
  }

  /** The connection dies: what is on the wire is lost, what waits fails, both ends are told. A new one may follow. */
  cut(lane: NetLane): void {
    lane.wire.length = 0;
    lane.down = true;
    const connection = lane.connection;
    lane.connection = this.#nextConnection++;
    this.#later(() => this.#lose(lane, "cut"));
    this.#later(() => lane.to.mux.handleConnectionClosed(connection));
  }

  /** A node vanishes without a word: its lanes are cut, its mux is closed. */
  kill(id: InstanceId): void {
    const node = this.nodes.get(id)!;
    this.nodes.delete(id);
    for (const [key, lane] of this.lanes) {
      if (lane.from !== node && lane.to !== node) continue;
      this.lanes.delete(key);
      lane.wire.length = 0;
      lane.down = true;
      if (lane.from !== node) this.#later(() => this.#lose(lane, "killed"));
      if (lane.to !== node) this.#later(() => lane.to.mux.handleConnectionClosed(lane.connection));
    }
    node.mux.close();
  }

  /** As the transport's contract has it: pending admissions fail, then the lane is reported lost. */
  #lose(lane: NetLane, reason: string): void {
    const error = new TokenplaneError("connection", "Connection closed");
    for (const queued of lane.waiting.splice(0)) queued.admission?.(error);
    lane.from.mux.handleLaneLost(lane.to.id, lane.lane, reason);
    lane.down = false;
  }

  #later(callback: () => void): void {
    this.clock.setTimer(callback, this.#delayMs);
  }

  #send(
    from: InstanceId,
    to: InstanceId,
    index: number,
    parts: readonly Uint8Array[],
    admission: Admission,
  ): boolean {
    if (!this.nodes.has(to) || !this.nodes.has(from)) {
      this.#later(() => admission(new TokenplaneError("connection", "Connection refused")));
      return false;
    }
    const lane = this.lane(from, to, index);
    const bytes = joined(parts);
    if (lane.down || lane.waiting.length > 0 || lane.wire.length >= this.#depth) {
      lane.waiting.push({ bytes, admission });
      return false;
    }
    this.#admit(lane, bytes);
    return true;
  }

  #admit(lane: NetLane, bytes: Uint8Array): void {
    lane.wire.push(bytes);
    const connection = lane.connection;
    this.#later(() => {
      if (lane.connection === connection) this.#pump(lane);
    });
  }

  #pump(lane: NetLane): void {
    if (lane.stalled || lane.down) return;
    const bytes = lane.wire.shift();
    if (bytes !== undefined && this.nodes.has(lane.to.id)) {
      for (const arrived of this.tamper === null ? [bytes] : this.tamper(lane, bytes)) {
        lane.delivered.push(arrived);
        lane.to.mux.handleBatch(lane.from.id, lane.connection, arrived);
      }
      lane.to.mux.handleReadEnd();
    }
    const next = lane.waiting.shift();
    if (next !== undefined) {
      this.#admit(lane, next.bytes);
      next.admission?.(null);
    }
    if (lane.wire.length > 0) this.#later(() => this.#pump(lane));
  }

  #attach(from: InstanceId, to: InstanceId, handle: Handle, session: bigint): Promise<AttachGrant> {
    return later((resolve, reject) =>
      this.#later(() => {
        const answer = this.nodes.get(to)?.mux.anchors.attach(handle.lo, from, session);
        if (answer === undefined || "refused" in answer) {
          reject(new TokenplaneError("remote", answer?.refused ?? "Connection closed"));
          return;
        }
        const { initialCredit, slotByteBudget } = answer.ticket;
        resolve({ routingSessionId: answer.sessionId, initialCredit, slotByteBudget });
      })
    );
  }
}

/** As much of a promise as a mux uses, without microtasks: whole simulations then run in one synchronous call. */
function later<T>(
  start: (resolve: (value: T) => void, reject: (error: unknown) => void) => void,
): Promise<T> {
  const thenable: Pick<Promise<T>, "then"> = {
    then(onDone, onFailed) {
      start((value) => void onDone?.(value), (error) => void onFailed?.(error));
      return undefined as never;
    },
  };
  return thenable as Promise<T>;
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
