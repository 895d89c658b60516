/** A messenger without a network: calls go to functions that the test sets. */
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

/** {@linkcode MessengerPort} that the test scripts. */
export class ScriptedMessenger implements MessengerPort {
  readonly instanceId: InstanceId = "00000000-0000-4000-8000-000000000000";
  readonly workerId = 7n;
  readonly peerInfo: PeerInfo = { instanceId: this.instanceId, workerAddress: new Uint8Array([0x80]) };
  readonly peers = new Map<InstanceId, RemotePeer>();
  readonly #json = new Map<string, JsonHandler>();
  readonly #listeners: Partial<MessengerEvents>[] = [];
  /** What becomes of an ack/nack request. Default: acknowledged. */
  onAckRequest: (peer: InstanceId, handler: string, payload: Uint8Array) => Promise<void> = () =>
    Promise.resolve();
  /** What becomes of a unary call. Default: answered. */
  onJsonRequest: (peer: InstanceId, handler: string, value: unknown) => Promise<unknown> = () =>
    Promise.resolve({});

  lanesTo(): number {
    return 1;
  }

  registerPeer(info: PeerInfo): RemotePeer {
    const peer = { instanceId: info.instanceId, workerId: BigInt(this.peers.size + 100), info };
    this.peers.set(info.instanceId, peer);
    return peer;
  }

  unregisterPeer(peer: InstanceId): void {
    this.peers.delete(peer);
  }

  peer(peer: InstanceId): RemotePeer | undefined {
    return this.peers.get(peer);
  }

  peerByWorkerId(workerId: bigint): RemotePeer | undefined {
    return [...this.peers.values()].find((peer) => peer.workerId === workerId);
  }

  handleOneWay(_name: string, _handler: OneWayHandler): void {}

  handleJson(name: string, handler: JsonHandler): void {
    this.#json.set(name, handler);
  }

  handleBytes(_name: string, _handler: BytesHandler): void {}

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

  requestJson(peer: InstanceId, handler: string, value: unknown): Promise<unknown> {
    return this.onJsonRequest(peer, handler, value);
  }

  requestAck(peer: InstanceId, handler: string, payload: Uint8Array): Promise<void> {
    return this.onAckRequest(peer, handler, payload);
  }

  requestJsonAt(): Promise<unknown> {
    return Promise.reject(new TokenplaneError("connection", "A fake messenger dials nobody"));
  }

  beginDrain(): void {}

  shutdown(): Promise<void> {
    return Promise.resolve();
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
}
