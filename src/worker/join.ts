/** Joins a worker to its frontends, with all of their shards, and keeps it joined. */
import type { InstanceId } from "../../transports/contract.ts";
import type { Clock } from "../clock.ts";
import type { MessengerPort } from "../messenger/types.ts";
import { type Logger, silentLogger } from "../observe/log.ts";
import { writeJoinMessage } from "../routing/join_message.ts";
import type { ModelCard } from "../routing/worker.ts";
import { FrontendLink, type LinkContext } from "./frontend_link.ts";
import type { PeerPreparation } from "./peer_preparation.ts";

/** What {@linkcode Join} is made with. */
export interface JoinOptions {
  readonly messenger: MessengerPort;
  readonly preparation: PeerPreparation;
  readonly clock: Clock;
  /** Node addresses of frontends, `host:port`. */
  readonly frontends: readonly string[];
  readonly models: readonly ModelCard[];
  /** Name of the engine, for display. */
  readonly engine: string;
  /** Requests that this worker runs at one time. */
  readonly capacity: number;
  readonly virtualWorkers: number;
  readonly log?: Logger;
  /** Source of jitter; default `Math.random`. */
  readonly random?: () => number;
}

/** Nodes to be joined at one time, over all frontends. */
const MAX_LINKS = 1_024;

/**
 * One link per address: those given, and those of the shards that the given ones name. Of the links whose addresses lead
 * to one node, one joins it; the others are its spares.
 */
export class Join {
  readonly #context: LinkContext;
  readonly #preparation: PeerPreparation;
  readonly #seeds: ReadonlySet<string>;
  readonly #links = new Map<string, FrontendLink>();
  /** By the link that named them, the shards it named last. */
  readonly #shards = new Map<FrontendLink, readonly string[]>();
  #isLeaving = false;

  constructor(options: JoinOptions) {
    const { capacity, clock, engine, virtualWorkers, log = silentLogger, messenger, models, preparation } =
      options;
    this.#preparation = preparation;
    this.#seeds = new Set(options.frontends);
    this.#context = {
      messenger,
      preparation,
      clock,
      log,
      random: options.random ?? Math.random,
      message: (isByAddress) =>
        writeJoinMessage(messenger.peerInfo, { models, engine, capacity, virtualWorkers }, isByAddress),
      rivalOf: (link, instanceId) => {
        for (const other of this.#links.values()) {
          if (other !== link && other.isJoined && other.instanceId === instanceId) return other;
        }
        return null;
      },
      onAway: (link) => {
        for (const other of this.#links.values()) other.handleAway(link);
      },
      onShards: (link, addresses) => this.#handleShards(link, addresses),
    };
  }

  /** Starts to join; never rejects, never gives up. */
  start(): void {
    this.#preparation.onLost = (instanceId) => {
      for (const link of this.#links.values()) if (link.instanceId === instanceId) link.handleLost();
    };
    for (const address of this.#seeds) this.#open(address);
  }

  /** Addresses, one per node, and whether this worker is joined there now. */
  get frontends(): { address: string; joined: boolean }[] {
    return [...this.#links.values()].filter((link) => !link.isSpare)
      .map(({ address, isJoined }) => ({ address, joined: isJoined }));
  }

  /** Frontends, shards of one counted singly, that this worker is joined to now. */
  *joined(): Iterable<InstanceId> {
    for (const { instanceId, isJoined } of this.#links.values()) if (isJoined) yield instanceId!;
  }

  /** Tells every frontend that this worker takes no more requests. Resolves when all have answered or timed out. */
  async leave(timeoutMs: number): Promise<void> {
    this.#isLeaving = true;
    await Promise.all([...this.#links.values()].map((link) => link.leave(timeoutMs)));
  }

  /** Joins no more. Frontends stay registered: what is on its way to them still has to get there. */
  stop(): void {
    this.#isLeaving = true;
    this.#preparation.onLost = null;
    for (const link of this.#links.values()) link.stop();
  }

  #open(address: string): void {
    if (this.#links.has(address) || this.#links.size >= MAX_LINKS) return;
    const link = new FrontendLink(this.#context, address, this.#seeds.has(address));
    this.#links.set(address, link);
    link.join();
  }

  /** Only what a given frontend names counts: shards name one another too. */
  #handleShards(link: FrontendLink, named: readonly string[]): void {
    if (this.#isLeaving || !this.#seeds.has(link.address)) return;
    // A frontend on all interfaces cannot know by which of them it is reached: `:PORT` is at the host we came by.
    const host = link.address.slice(0, link.address.lastIndexOf(":"));
    const addresses = named.map((address) => address.startsWith(":") ? host + address : address);
    this.#shards.set(link, addresses);
    for (const address of addresses) this.#open(address);
    const wanted = new Set([...this.#seeds, ...[...this.#shards.values()].flat()]);
    for (const [address, other] of this.#links) {
      if (wanted.has(address)) continue;
      this.#links.delete(address);
      other.close();
      this.#context.onAway(other);
    }
  }
}
