/** A messenger without a network: a test answers its calls and says what arrives and what is lost. */
import type { InstanceId } from "../../transports/contract.ts";
import { TokenplaneError } from "../../src/errors.ts";
import type { PeerInfo } from "../../src/messenger/peer_info.ts";
import type {
  BytesHandler,
  JsonHandler,
  MessageOrigin,
  MessengerEvents,
  MessengerPort,
  OneWayHandler,
  RemotePeer,
} from "../../src/messenger/types.ts";

/** One unary call of the code under test. */
export interface UnaryCall {
  /** An instance id, or `host:port` when only the address was known. */
  readonly to: string;
  readonly handler: string;
  readonly value: unknown;
}

/** Worker ids are made up: the number behind the last hyphen of the instance id. */
export function workerIdOf(instanceId: InstanceId): bigint {
  return BigInt(`0x${instanceId.slice(24)}`);
}

/** An instance id with this number at its end. */
export function instanceIdOf(number: number): string {
  return `00000000-0000-4000-8000-${number.toString(16).padStart(12, "0")}`;
}

/** A peer info with this number. */
export function peerInfoOf(number: number): PeerInfo {
  return { instanceId: instanceIdOf(number), workerAddress: new Uint8Array([0x80]) };
}

/** {@linkcode MessengerPort} that the test scripts. */
export class ScriptedMessenger implements MessengerPort {
  readonly peerInfo: PeerInfo = peerInfoOf(0);
  readonly peers = new Map<InstanceId, RemotePeer>();
  /** Unary calls of the code under test, in order. */
  readonly calls: UnaryCall[] = [];
  /** Registrations and unregistrations in order, as `+id` and `-id`. */
  readonly registrations: string[] = [];
  /** What becomes of a unary call. Default: answered by peers, and nobody listens at an address. */
  answer: (call: UnaryCall) => unknown = ({ to }) => {
    if (this.peers.has(to)) return {};
    throw new TokenplaneError("connection", "Cannot connect: refused");
  };
  /** What becomes of an ack/nack request. Default: acknowledged. */
  onAckRequest: (peer: InstanceId, handler: string, payload: Uint8Array) => Promise<void> = () =>
    Promise.resolve();
  isDraining = false;
  isShutDown = false;
  readonly #json = new Map<string, JsonHandler>();
  readonly #bytes = new Map<string, BytesHandler>();
  readonly #listeners: Partial<MessengerEvents>[] = [];

  get instanceId(): string {
    return this.peerInfo.instanceId;
  }

  get workerId(): bigint {
    return workerIdOf(this.instanceId);
  }

  lanesTo(): number {
    return 1;
  }

  registerPeer(info: PeerInfo): RemotePeer {
    const { instanceId } = info;
    const known = this.peers.get(instanceId);
    if (known !== undefined) return known;
    this.registrations.push(`+${instanceId}`);
    const peer = { instanceId, workerId: workerIdOf(instanceId), info };
    this.peers.set(instanceId, peer);
    return peer;
  }

  unregisterPeer(peer: InstanceId): void {
    if (this.peers.delete(peer)) this.registrations.push(`-${peer}`);
  }

  peer(peer: InstanceId): RemotePeer | undefined {
    return this.peers.get(peer);
  }

  peerByWorkerId(workerId: bigint): RemotePeer | undefined {
    return [...this.peers.values()].find((peer) => peer.workerId === workerId);
  }

  handleOneWay(_name: string, _handler: OneWayHandler): void {}

  handleJson(name: string, handler: JsonHandler): void {
    if (this.#json.has(name)) throw new Error(`Cannot register "${name}" twice`);
    this.#json.set(name, handler);
  }

  handleBytes(name: string, handler: BytesHandler): void {
    if (this.#bytes.has(name)) throw new Error(`Cannot register "${name}" twice`);
    this.#bytes.set(name, handler);
  }

  listen(events: Partial<MessengerEvents>): void {
    this.#listeners.push(events);
  }

  eagerBudget(): number {
    return 16_000_000;
  }

  sendOneWay(): boolean {
    return true;
  }

  sendJson(): void {}

  requestBytes(_peer: InstanceId, handler: string): Promise<Uint8Array> {
    return Promise.reject(new TokenplaneError("handler_not_found", `Handler '${handler}' not found`));
  }

  requestJson(peer: InstanceId, handler: string, value: unknown): Promise<unknown> {
    return this.#call({ to: peer, handler, value });
  }

  requestAck(peer: InstanceId, handler: string, payload: Uint8Array): Promise<void> {
    return this.onAckRequest(peer, handler, payload);
  }

  requestJsonAt(address: string, handler: string, value: unknown): Promise<unknown> {
    return this.#call({ to: address, handler, value });
  }

  beginDrain(): void {
    this.isDraining = true;
  }

  shutdown(): Promise<void> {
    this.isShutDown = true;
    return Promise.resolve();
  }

  /** A message arrives; throws what the handler throws. */
  deliver(name: string, payload: Uint8Array, from: number, connection = from): void {
    const instanceId = instanceIdOf(from);
    const origin: MessageOrigin = {
      workerId: workerIdOf(instanceId),
      peer: this.peers.get(instanceId) ?? null,
      connection,
    };
    const handler = this.#bytes.get(name);
    if (handler === undefined) throw new Error(`Cannot deliver "${name}": nobody handles it`);
    void handler(payload, origin);
  }

  /** A peer calls a JSON handler; throws what the handler throws. */
  call(handler: string, input: unknown, origin: Partial<MessageOrigin> = {}): unknown {
    return this.#json.get(handler)!(input, { workerId: 0n, peer: null, connection: 1, ...origin });
  }

  /** A lane to `peer` is lost. */
  loseLane(peer: InstanceId, lane = 0): void {
    for (const listener of this.#listeners) listener.onLaneLost?.(peer, lane, "reset");
  }

  /** An inbound connection is closed. */
  closeConnection(connection: number): void {
    for (const listener of this.#listeners) listener.onConnectionClosed?.(connection, "reset");
  }

  async #call(call: UnaryCall): Promise<unknown> {
    this.calls.push(call);
    return await this.answer(call);
  }
}
