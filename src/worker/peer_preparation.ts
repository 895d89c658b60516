/**
 * Which frontends this worker can send to. A frontend is registered once per instance id, not per request.
 *
 * The join keeps the frontends it knows; one that is known from a ticket alone stays until its place is needed.
 */
import type { InstanceId } from "../../transports/contract.ts";
import { TokenplaneError } from "../errors.ts";
import type { PeerInfo } from "../messenger/peer_info.ts";
import type { MessageOrigin, MessengerPort } from "../messenger/types.ts";

/** Frontends known at one time; a hostile ticket could name a new one each. */
const MAX_PEERS = 1_024;

/** Registers frontends with the messenger and forgets them again. */
export class PeerPreparation {
  /** Called when a connection from or to a known frontend is lost. */
  onLost: ((instanceId: InstanceId) => void) | null = null;
  readonly #messenger: MessengerPort;
  /** By instance id, who keeps it (addresses of the join). In order of first use. */
  readonly #keepers = new Map<InstanceId, Set<string>>();
  /** Inbound connections over which a known frontend has spoken. */
  readonly #connections = new Map<number, InstanceId>();

  constructor(messenger: MessengerPort) {
    this.#messenger = messenger;
    messenger.listen({
      onLaneLost: (peer) => {
        if (this.#keepers.has(peer)) this.onLost?.(peer);
      },
      onConnectionClosed: (connection) => {
        const instanceId = this.#connections.get(connection);
        this.#connections.delete(connection);
        if (instanceId !== undefined && this.#keepers.has(instanceId)) this.onLost?.(instanceId);
      },
    });
  }

  /** Frontends known now. */
  get size(): number {
    return this.#keepers.size;
  }

  /** Registers a frontend, at its present address, until `keeper` releases it. */
  keep(info: PeerInfo, keeper: string): void {
    this.#messenger.registerPeer(info);
    const keepers = this.#keepers.get(info.instanceId);
    if (keepers === undefined) this.#keepers.set(info.instanceId, new Set([keeper]));
    else keepers.add(keeper);
  }

  /** Lets a frontend go; with its last keeper its registration goes. */
  release(instanceId: InstanceId, keeper: string): void {
    const keepers = this.#keepers.get(instanceId);
    if (keepers === undefined || !keepers.delete(keeper) || keepers.size > 0) return;
    this.#forget(instanceId);
  }

  /**
   * Makes sure that the frontend of a ticket can be sent to. Throws `invalid_request` when the ticket is not the
   * sender's own, or when no transport here takes its address.
   */
  prepare(info: PeerInfo, origin: MessageOrigin): void {
    const { instanceId } = info;
    const known = this.#messenger.peer(instanceId);
    const peer = known ?? this.#register(info);
    if (peer.workerId !== origin.workerId) {
      if (known === undefined) this.#forget(instanceId);
      throw new TokenplaneError("invalid_request", "Cannot take a ticket: it is not that of its sender");
    }
    if (!this.#connections.has(origin.connection)) this.#connections.set(origin.connection, instanceId);
  }

  #register(info: PeerInfo) {
    if (this.#keepers.size >= MAX_PEERS) this.#makeRoom();
    const peer = this.#messenger.registerPeer(info);
    if (!this.#keepers.has(info.instanceId)) this.#keepers.set(info.instanceId, new Set());
    return peer;
  }

  #makeRoom(): void {
    for (const [instanceId, keepers] of this.#keepers) {
      if (keepers.size === 0) return this.#forget(instanceId);
    }
    throw new TokenplaneError("overloaded", `Cannot register a frontend: ${MAX_PEERS} are known already`);
  }

  #forget(instanceId: InstanceId): void {
    this.#keepers.delete(instanceId);
    this.#messenger.unregisterPeer(instanceId);
  }
}
