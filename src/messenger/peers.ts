/** The nodes this node knows, by instance id and by worker id. */
import type { InstanceId, Transport } from "../../transports/contract.ts";
import { TokenplaneError } from "../errors.ts";
import { decodeWorkerAddress, isSamePeerInfo, type PeerInfo } from "./peer_info.ts";
import type { RemotePeer } from "./types.ts";
import { workerIdOf } from "./worker_id.ts";

/** A {@linkcode RemotePeer} with what the messenger keeps about it. */
export interface PeerRecord extends RemotePeer {
  info: PeerInfo;
  transport: Transport;
  /** Names of its handlers, once it has been asked. Outlives a re-registration. */
  handlers: ReadonlySet<string> | null;
  /** The `_hello` under way. */
  hello: Promise<ReadonlySet<string>> | null;
  /** Inbound connections on which it is known to send. */
  inbound: number;
}

/** See the head of this file. */
export class PeerTable {
  readonly #transports: readonly Transport[];
  readonly #maxPeers: number;
  readonly #byId = new Map<InstanceId, PeerRecord>();
  readonly #byWorkerId = new Map<bigint, PeerRecord>();
  /** Rises with every registration and removal: what was looked up before may be stale. */
  version = 0;

  /** @param transports in order of preference */
  constructor(transports: readonly Transport[], maxPeers: number) {
    this.#transports = transports;
    this.#maxPeers = maxPeers;
  }

  get size(): number {
    return this.#byId.size;
  }

  get(peer: InstanceId): PeerRecord | undefined {
    return this.#byId.get(peer);
  }

  byWorkerId(workerId: bigint): PeerRecord | undefined {
    return this.#byWorkerId.get(workerId);
  }

  /** As `MessengerPort.registerPeer`; also throws `overloaded` when the table is full of peers that are connected. */
  register(info: PeerInfo): PeerRecord {
    const known = this.#byId.get(info.instanceId);
    if (known !== undefined && isSamePeerInfo(known.info, info)) return known;
    // A node that restarts has a new id, so one whose connections live does not move: more than the connection that
    // brings this means that somebody speaks in another's name, and would get what is meant for the other.
    if (known !== undefined && known.inbound > 1) {
      throw new TokenplaneError(
        "invalid_request",
        `Cannot move peer "${info.instanceId}": it is connected from its known address`,
      );
    }
    const workerId = known?.workerId ?? workerIdOf(info.instanceId);
    if (known === undefined && this.#byWorkerId.has(workerId)) {
      throw new TokenplaneError(
        "invalid_request",
        `Cannot register peer "${info.instanceId}": its worker id is taken`,
      );
    }
    const transport = this.#introduce(info);
    this.version++;
    if (known !== undefined) {
      if (known.transport !== transport) known.transport.unregister(info.instanceId);
      known.info = info;
      known.transport = transport;
      return known;
    }
    this.#makeRoom(info, transport);
    const record: PeerRecord = {
      instanceId: info.instanceId,
      workerId,
      info,
      transport,
      handlers: null,
      hello: null,
      inbound: 0,
    };
    this.#byId.set(info.instanceId, record);
    this.#byWorkerId.set(workerId, record);
    return record;
  }

  /** Forgets a peer and closes its lanes. */
  unregister(peer: InstanceId): void {
    const record = this.#byId.get(peer);
    if (record === undefined) return;
    this.#byId.delete(peer);
    this.#byWorkerId.delete(record.workerId);
    this.version++;
    record.transport.unregister(peer);
  }

  /** Gives the address to the first transport that takes it. */
  #introduce(info: PeerInfo): Transport {
    const entries = decodeWorkerAddress(info.workerAddress);
    let cause: unknown;
    for (const transport of this.#transports) {
      const entry = entries.get(transport.key);
      if (entry === undefined) continue;
      try {
        transport.register(info.instanceId, entry);
        return transport;
      } catch (caught) {
        cause = caught;
      }
    }
    const keys = [...entries.keys()].slice(0, 8).map((key) => `"${key.slice(0, 32)}"`).join(", ");
    throw new TokenplaneError(
      "invalid_request",
      `Cannot register peer "${info.instanceId}": no transport here takes its address (${keys})`,
      { cause },
    );
  }

  /** Restarted nodes come back under new ids: the oldest that is not connected makes room. */
  #makeRoom(newcomer: PeerInfo, transport: Transport): void {
    if (this.#byId.size < this.#maxPeers) return;
    for (const record of this.#byId.values()) {
      if (record.inbound > 0) continue;
      this.unregister(record.instanceId);
      return;
    }
    transport.unregister(newcomer.instanceId);
    throw new TokenplaneError("overloaded", `Cannot register peer: ${this.#maxPeers} are connected already`);
  }
}
