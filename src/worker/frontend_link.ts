/**
 * Keeps this worker joined to the node at one address.
 *
 * | state | next join |
 * |---|---|
 * | joined | after the interval that the frontend asks for, over the standing connection |
 * | just joined by address alone | at once, over the standing connection: the frontend sees who holds it |
 * | connection lost | at once, by address: another process may listen there by now |
 * | failed | after a wait that doubles from 50 ms to 2 s, half of it random |
 * | spare: another address leads to the same node | when the link of that address has lost the node |
 */
import type { InstanceId } from "../../transports/contract.ts";
import type { Clock, TimerHandle } from "../clock.ts";
import { TokenplaneError, toTokenplaneError } from "../errors.ts";
import { type PeerInfo, peerInfoFromJson } from "../messenger/peer_info.ts";
import type { MessengerPort } from "../messenger/types.ts";
import type { Logger } from "../observe/log.ts";
import { JOIN_HANDLER, LEAVE_HANDLER } from "../routing/join_message.ts";
import type { PeerPreparation } from "./peer_preparation.ts";

const JOIN_TIMEOUT_MS = 5_000;
const DEFAULT_INTERVAL_MS = 2_000;
const MIN_INTERVAL_MS = 100;
const MAX_INTERVAL_MS = 60_000;
const MIN_WAIT_MS = 50;
const MAX_WAIT_MS = 2_000;
/** Shards that one frontend may name. */
const MAX_SHARDS = 256;
const MAX_ADDRESS_CHARS = 256;

/** What all links of a worker share. */
export interface LinkContext {
  readonly messenger: MessengerPort;
  readonly preparation: PeerPreparation;
  readonly clock: Clock;
  readonly log: Logger;
  /** 0 (inclusive) to 1 (exclusive), for the waits. */
  readonly random: () => number;
  /** The message of a join. */
  readonly message: (isByAddress: boolean) => unknown;
  /** The other link that is joined to a node, if there is one. */
  readonly rivalOf: (link: FrontendLink, instanceId: InstanceId) => FrontendLink | null;
  /** The link is not joined to the node that it was joined to, if any: its spares have to see for themselves. */
  readonly onAway: (link: FrontendLink) => void;
  /** A frontend named the node addresses of its shards. */
  readonly onShards: (link: FrontendLink, addresses: readonly string[]) => void;
}

/** What a frontend answers to a join. */
interface JoinReply {
  readonly peer: PeerInfo;
  readonly shards: readonly string[];
  readonly intervalMs: number;
}

/** Joins, joins again, and notices that a frontend is another one. */
export class FrontendLink {
  readonly address: string;
  /** The address was given, not named by a frontend. */
  readonly isGiven: boolean;
  readonly #context: LinkContext;
  /** Has joined the node that this address leads to, so that this link waits. */
  #standsIn: FrontendLink | null = null;
  #instanceId: InstanceId | null = null;
  /** The frontend has answered on the standing connection since it was last lost. */
  #isConnected = false;
  #isAsking = false;
  #isAskedAgain = false;
  #isClosed = false;
  #failures = 0;
  #timer: TimerHandle | null = null;

  constructor(context: LinkContext, address: string, isGiven: boolean) {
    this.#context = context;
    this.address = address;
    this.isGiven = isGiven;
  }

  /** The frontend's instance id, null before the first join. */
  get instanceId(): InstanceId | null {
    return this.#instanceId;
  }

  /** The last join succeeded and its connection stands. */
  get isJoined(): boolean {
    return this.#isConnected;
  }

  /** Another link has joined the node that this address leads to. */
  get isSpare(): boolean {
    return this.#standsIn !== null;
  }

  /** Joins now. Another join under way is followed by one more. */
  join(): void {
    if (this.#isClosed) return;
    this.#clearTimer();
    if (this.#isAsking) this.#isAskedAgain = true;
    else void this.#ask();
  }

  /** A connection from or to the frontend is gone. */
  handleLost(): void {
    this.#isConnected = false;
    this.join();
    this.#context.onAway(this);
  }

  /** `link` may no longer be joined to the node for which this one is its spare. */
  handleAway(link: FrontendLink): void {
    if (this.#standsIn !== link) return;
    this.#standsIn = null;
    this.#joinIn(this.#waitMs());
  }

  /** Joins no more, and tells the frontend so; the connection stays for what is running. */
  async leave(timeoutMs: number): Promise<void> {
    this.stop();
    if (this.#instanceId === null) return;
    const { messenger } = this.#context;
    const message = { instance_id: messenger.instanceId };
    try {
      await messenger.requestJson(this.#instanceId, LEAVE_HANDLER, message, timeoutMs);
    } catch (caught) {
      this.#context.log.debug("leave_failed", { address: this.address, error: toTokenplaneError(caught) });
    }
  }

  /** Joins no more. */
  stop(): void {
    this.#isClosed = true;
    this.#clearTimer();
  }

  /** Joins no more and lets the frontend go, with what still runs for it. */
  close(): void {
    this.stop();
    this.#replace(null);
  }

  async #ask(): Promise<void> {
    const { log, messenger } = this.#context;
    this.#isAsking = true;
    this.#isAskedAgain = false;
    this.#standsIn = null;
    const overConnection = this.#isConnected && this.#instanceId !== null;
    try {
      const message = this.#context.message(!overConnection);
      const answer = overConnection
        ? await messenger.requestJson(this.#instanceId!, JOIN_HANDLER, message, JOIN_TIMEOUT_MS)
        : await messenger.requestJsonAt(this.address, JOIN_HANDLER, message, JOIN_TIMEOUT_MS);
      if (!this.#isClosed) this.#handleReply(readReply(answer), overConnection);
    } catch (caught) {
      const isFirst = this.#failures++ === 0;
      const waitMs = this.#waitMs();
      if (isFirst) {
        const error = toTokenplaneError(caught);
        log.warn("join_failed", { address: this.address, error, retry_ms: Math.ceil(waitMs) });
      }
      this.#isConnected = false;
      this.#joinIn(waitMs);
      this.#context.onAway(this);
    } finally {
      this.#isAsking = false;
      if (this.#isAskedAgain) this.join();
    }
  }

  #handleReply(reply: JoinReply, overConnection: boolean): void {
    const { instanceId } = reply.peer;
    const isAnother = this.#instanceId !== instanceId;
    const rival = this.#context.rivalOf(this, instanceId);
    // A given address wins over a named one: what it names is what counts.
    if (rival !== null && (rival.isGiven || !this.isGiven)) return this.#standBy(rival);
    if (isAnother) this.#context.log.info("joined", { address: this.address, frontend: instanceId });
    this.#replace(reply.peer);
    this.#isConnected = true;
    if (rival !== null) rival.#standBy(this);
    if (isAnother) this.#context.onAway(this);
    // Only the standing connection counts: a frontend may answer at an address and be out of reach at its own.
    if (overConnection) this.#failures = 0;
    this.#joinIn(overConnection ? reply.intervalMs : this.#waitMs());
    this.#context.onShards(this, reply.shards);
  }

  #standBy(link: FrontendLink): void {
    this.#standsIn = link;
    this.#clearTimer();
    this.#isConnected = false;
    this.#replace(null);
    this.#context.onAway(this);
  }

  /** Prepares the frontend that answered and lets go of the one that was there before. */
  #replace(peer: PeerInfo | null): void {
    const { preparation } = this.#context;
    const before = this.#instanceId;
    if (peer !== null) preparation.keep(peer, this.address);
    this.#instanceId = peer?.instanceId ?? null;
    if (before !== null && before !== this.#instanceId) preparation.release(before, this.address);
  }

  /** 0 while nothing has failed. */
  #waitMs(): number {
    if (this.#failures === 0) return 0;
    const longest = Math.min(MAX_WAIT_MS, MIN_WAIT_MS * 2 ** Math.min(this.#failures - 1, 16));
    return longest * (1 + this.#context.random()) / 2;
  }

  #joinIn(ms: number): void {
    this.#clearTimer();
    if (!this.#isClosed) this.#timer = this.#context.clock.setTimer(() => this.join(), ms);
  }

  #clearTimer(): void {
    if (this.#timer !== null) this.#context.clock.clearTimer(this.#timer);
    this.#timer = null;
  }
}

/** Reads the answer to a join; unknown fields are ignored. Throws `protocol`. */
function readReply(answer: unknown): JoinReply {
  const fields = (typeof answer === "object" && answer !== null ? answer : {}) as Record<string, unknown>;
  const { shards = [], join_interval_ms: interval = DEFAULT_INTERVAL_MS } = fields;
  const areShards = Array.isArray(shards) && shards.length <= MAX_SHARDS &&
    shards.every((shard) => typeof shard === "string" && shard !== "" && shard.length <= MAX_ADDRESS_CHARS);
  if (!areShards) throw refuse('"shards" must be a list of node addresses');
  if (typeof interval !== "number" || !(interval > 0)) throw refuse('"join_interval_ms" must be above 0');
  return {
    peer: peerInfoFromJson(fields.peer_info),
    shards,
    intervalMs: Math.min(MAX_INTERVAL_MS, Math.max(MIN_INTERVAL_MS, interval)),
  };
}

function refuse(why: string): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot join a frontend: ${why}`);
}
