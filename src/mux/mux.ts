/**
 * One node's mux: its peers and their lanes, its anchors and senders, and the few timers that serve them all.
 *
 * Pure: it knows bytes, a clock, and the {@linkcode MuxLink} that carries batches. It opens no socket.
 */
import type { InstanceId } from "../../transports/contract.ts";
import type { Clock } from "../clock.ts";
import type { Sender, StreamConsumer, Ticket } from "../stream.ts";
import type { MuxAnchor } from "./anchor.ts";
import { AnchorRegistry } from "./anchor_registry.ts";
import type { Flushable, MuxContext } from "./context.ts";
import { ByteBudget } from "./credit.ts";
import { type DeadlineLane, Deadlines } from "./deadlines.ts";
import { EgressStream } from "./egress_stream.ts";
import type { BatchSource, IngressSlot } from "./ingress_slot.ts";
import { MuxLane } from "./lane.ts";
import type { MuxLink } from "./link.ts";
import { type MuxOptions, resolveMuxOptions } from "./options.ts";
import { ReplyScheduler } from "./reply_scheduler.ts";
import { MuxStats } from "./stats.ts";
import { BATCH_HEADER_BYTES } from "./wire/batch.ts";

/** Who this node is, as its tickets say. */
export interface MuxIdentity {
  readonly workerId: bigint;
  readonly peerInfo: Ticket["peer"];
}

interface MuxPeer {
  readonly lanes: (MuxLane | null)[];
  readonly bytes: ByteBudget;
}

/** What a mux tells the layer above it. */
export interface MuxEvents {
  /** A consumer's or a producer's own code threw; that stream has ended. */
  onConsumerError(error: unknown): void;
}

/** The mux of one node. */
export class Mux implements MuxContext {
  readonly clock: Clock;
  readonly link: MuxLink;
  readonly options: MuxOptions;
  readonly stats = new MuxStats();
  readonly anchors: AnchorRegistry;
  readonly lingers: DeadlineLane<Flushable> | null;
  readonly watchdogs: DeadlineLane<IngressSlot>;
  readonly #identity: MuxIdentity;
  readonly #events: MuxEvents;
  readonly #deadlines: Deadlines;
  readonly #replies: ReplyScheduler;
  readonly #graces: DeadlineLane<MuxLane>;
  readonly #sweeps: DeadlineLane<Mux>;
  readonly #beats = new Map<number, DeadlineLane<EgressStream>>();
  readonly #peers = new Map<InstanceId, MuxPeer>();
  readonly #senders = new Map<bigint, EgressStream>();
  /** The same by handle, which is unique among all nodes: what a stop names. */
  readonly #byHandle = new Map<string, EgressStream>();
  #nextStreamId = 1n;
  #epoch = 0n;
  #sweeping = false;
  #flushList: Flushable[] = [];
  #flushScheduled = false;
  #onDelivered: () => void = () => {};
  #closed = false;

  constructor(
    clock: Clock,
    link: MuxLink,
    identity: MuxIdentity,
    options: Partial<MuxOptions> = {},
    events: MuxEvents = { onConsumerError: () => {} },
  ) {
    this.clock = clock;
    this.link = link;
    this.options = resolveMuxOptions(options);
    this.#identity = identity;
    this.#events = events;
    const { flush, heartbeatIntervalMs, peerGraceMs, sweepMs, replyLingerMs, visitFloorMs } = this.options;
    const deadlines = this.#deadlines = new Deadlines(clock);
    this.#replies = new ReplyScheduler(clock, replyLingerMs, visitFloorMs);
    this.lingers = flush.kind === "auto" && flush.maxLingerMs !== null && flush.maxLingerMs > 0
      ? deadlines.lane(flush.maxLingerMs, (target) => {
        this.stats.wakes.linger++;
        target.flush();
      })
      : null;
    this.watchdogs = deadlines.lane(heartbeatIntervalMs, (slot) => {
      if (slot.ingress.look(slot)) this.watchdogs.rearm(slot.watchdog!);
    });
    this.#graces = deadlines.lane(Math.max(1, peerGraceMs), (lane) => {
      // A batch that has come since then came on a connection that lives.
      if (lane.ingress.connection < 0) lane.ingress.retireAll("the sender's connection was lost");
    });
    this.#sweeps = deadlines.lane(sweepMs, () => this.#sweep());
    this.anchors = new AnchorRegistry(this.options, this.stats, link, deadlines, {
      delivered: () => this.#onDelivered(),
      consumerFailed: (error) => events.onConsumerError(error),
    });
  }

  /** Deadlines and timers held, for tests and gauges. */
  get timers(): { readonly entries: number; readonly timers: number } {
    return { entries: this.#deadlines.liveEntries, timers: this.#deadlines.timersHeld };
  }

  /** Bytes that wait for consumers, over all peers. */
  get bytesHeld(): number {
    let sum = 0;
    for (const peer of this.#peers.values()) sum += peer.bytes.used;
    return sum;
  }

  /** Frontend: a new stream from `producer` (null: whoever holds the ticket). */
  register(consumer: StreamConsumer, producer: InstanceId | null): MuxAnchor {
    return this.anchors.register(this.#identity.workerId, this.#identity.peerInfo, consumer, producer);
  }

  /** Worker: the sending end for a ticket of `peer`, which must be registered with the messenger. */
  open(peer: InstanceId, ticket: Ticket): Sender {
    const stream = new EgressStream(this, {
      peer,
      handle: ticket.handle,
      sessionId: ticket.routingSessionId,
      streamId: this.#nextStreamId++,
      // What waits here waits in this node's memory, so its own bound holds too.
      byteBudget: Math.min(ticket.slotByteBudget || Infinity, this.options.slotByteBudget),
      freeBeats: ticket.freeBeats,
    });
    this.#senders.set(stream.streamId, stream);
    this.#byHandle.set(handleKey(ticket.handle), stream);
    if (this.#closed) stream.end("closed");
    else if (ticket.routingSessionId === 0n) this.#attachThenBind(stream, ticket);
    else this.#bind(stream, ticket, ticket.initialCredit);
    return stream;
  }

  /** `_stream_stop`: nobody wants that stream any more. Unknown ones are ignored. */
  handleStop(peer: InstanceId, handle: Ticket["handle"], sessionId: bigint): void {
    const stream = this.#byHandle.get(handleKey(handle));
    if (stream !== undefined && stream.peer === peer && stream.sessionId === sessionId) stream.end("stopped");
  }

  /** `_stream_cancel`, by this side's own stream id. */
  handleCancel(peer: InstanceId, streamId: bigint): void {
    const stream = this.#senders.get(streamId);
    if (stream !== undefined && stream.peer === peer) stream.end("stopped");
  }

  /** One `_stream_batch` of a registered peer, in order of arrival; `source` is what `connection` names. */
  handleBatch(peer: InstanceId, connection: number, payload: Uint8Array, source?: BatchSource): void {
    if (this.#closed) return;
    if (payload.length < BATCH_HEADER_BYTES) {
      this.stats.malformedBatches++;
      return;
    }
    const flags = payload[1]!;
    // A peer that knows no lanes sends 0 here, and so does one that was offered none.
    const lane = this.#lane(peer, flags < this.options.lanes ? flags : 0);
    lane.ingress.connection = connection;
    lane.ingress.source = source;
    lane.ingress.handleBatch(payload);
    if (!this.#sweeping && lane.ingress.live > 0) this.#startSweep();
  }

  /** Everything that one read brought, or several that share an end, has been handled. */
  handleReadEnd(): void {
    this.#onDelivered();
    this.#replies.readEnded();
  }

  /** An outbound lane is gone: senders on it end, and so do streams whose credit it carried. */
  handleLaneLost(peer: InstanceId, lane: number, reason: string): void {
    this.#peers.get(peer)?.lanes[lane]?.batcher.die(reason);
  }

  /**
   * An inbound connection is gone. What it fed ends after a grace, unless a new epoch takes over first. What it
   * brought credit for ends now: grants may be lost with it, and so may the word that nobody reads any more.
   */
  handleConnectionClosed(connection: number): void {
    for (const peer of this.#peers.values()) {
      for (const lane of peer.lanes) {
        if (lane === null || lane.ingress.connection !== connection) continue;
        lane.ingress.connection = -1;
        lane.ingress.source = undefined;
        if (lane.ingress.live > 0) this.#graces.arm(lane);
        for (const stream of lane.batcher.slots.streams()) stream.abandon();
      }
    }
  }

  /** A peer is gone for good: its streams end, both ways, and its tables are dropped. */
  forgetPeer(peer: InstanceId, reason: string): void {
    const known = this.#peers.get(peer);
    this.#peers.delete(peer);
    for (const lane of known?.lanes ?? []) {
      if (lane === null) continue;
      lane.ingress.retireAll(reason);
      lane.batcher.die(reason);
      this.#replies.remove(lane);
    }
    this.anchors.endAll((anchor) => anchor.producer === peer && anchor.slot === null, reason);
    for (const stream of [...this.#senders.values()]) {
      if (stream.peer === peer) stream.end("peer_lost");
    }
  }

  /** Writes everything staged, on every lane, whatever the policy; never blocks. */
  flushBatch(): void {
    for (const peer of this.#peers.values()) {
      for (const lane of peer.lanes) lane?.batcher.kick();
    }
  }

  /** `callback` runs after all items that one read brought have been delivered. */
  onDelivered(callback: () => void): void {
    this.#onDelivered = callback;
  }

  /** Ends every stream, both ways, and every timer. */
  close(): void {
    this.#closed = true;
    for (const stream of [...this.#senders.values()]) stream.end("closed");
    for (const peer of [...this.#peers.keys()]) this.forgetPeer(peer, "the node is closing");
    this.anchors.endAll(() => true, "the node is closing");
    this.#deadlines.close();
  }

  nextEpoch(): bigint {
    return ++this.#epoch;
  }

  flushSoon(target: Flushable): void {
    if (target.flushQueued) return;
    target.flushQueued = true;
    this.#flushList.push(target);
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    this.clock.defer(this.#flushAll);
  }

  callbackFailed(error: unknown): void {
    this.#events.onConsumerError(error);
  }

  onStreamEnded(stream: EgressStream): void {
    this.#senders.delete(stream.streamId);
    const key = handleKey(stream.handle);
    if (this.#byHandle.get(key) === stream) this.#byHandle.delete(key);
  }

  readonly #flushAll = (): void => {
    this.#flushScheduled = false;
    const targets = this.#flushList;
    this.#flushList = [];
    this.stats.wakes.staged += targets.length;
    for (const target of targets) {
      target.flushQueued = false;
      target.flush();
    }
  };

  #attachThenBind(stream: EgressStream, ticket: Ticket): void {
    const begun = this.clock.now();
    const { attach } = this.stats.anchors;
    this.link.attach(stream.peer, ticket.handle, stream.streamId).then(
      (grant) => {
        attach.observe(true, this.clock.now() - begun);
        stream.sessionId = grant.routingSessionId === 0n ? stream.streamId : grant.routingSessionId;
        this.#bind(stream, ticket, grant.initialCredit);
      },
      () => {
        attach.observe(false, this.clock.now() - begun);
        stream.end("rejected");
      },
    );
  }

  #bind(stream: EgressStream, ticket: Ticket, initialCredit: number): void {
    // No window means that the mux is not offered; there is no other way to stream here.
    if (initialCredit < 1) {
      stream.end("rejected");
      return;
    }
    const lane = this.#leastLoadedLane(stream.peer, Math.max(1, ticket.lanes));
    stream.bind(lane.batcher, initialCredit, this.#beatLane(ticket.heartbeatIntervalMs));
  }

  #beatLane(intervalMs: number): DeadlineLane<EgressStream> {
    // Intervals are the peers' to name, so they are rounded to a few: each has a queue of its own. Half of what was
    // asked for, because a beat is due at the second look that finds the stream idle.
    const rounded = Math.min(32_768, Math.max(4, 2 ** Math.floor(Math.log2(Math.max(1, intervalMs / 2)))));
    let lane = this.#beats.get(rounded);
    if (lane === undefined) {
      lane = this.#deadlines.lane(rounded, (stream) => stream.beat());
      this.#beats.set(rounded, lane);
    }
    return lane;
  }

  #leastLoadedLane(peer: InstanceId, offered: number): MuxLane {
    const count = Math.max(1, Math.min(offered, this.options.lanes, this.link.lanesTo(peer)));
    let best = this.#lane(peer, 0);
    for (let i = 1; i < count; i++) {
      const lane = this.#lane(peer, i);
      if (lane.batcher.slots.live < best.batcher.slots.live) best = lane;
    }
    return best;
  }

  #lane(peer: InstanceId, index: number): MuxLane {
    let known = this.#peers.get(peer);
    if (known === undefined) {
      known = { lanes: [], bytes: new ByteBudget(this.options.peerByteBudget) };
      this.#peers.set(peer, known);
    }
    while (known.lanes.length <= index) known.lanes.push(null);
    return known.lanes[index] ??= new MuxLane(this, this.anchors, this.#replies, peer, index, known.bytes);
  }

  #startSweep(): void {
    this.#sweeping = true;
    this.#sweeps.arm(this);
  }

  /** Backstop: credit that no reply has returned goes now. */
  #sweep(): void {
    this.#sweeping = false;
    let live = 0;
    for (const peer of this.#peers.values()) {
      for (const lane of peer.lanes) {
        if (lane === null) continue;
        live += lane.ingress.live;
        if (lane.owesReplies && !lane.batcher.parked) this.#replies.add(lane);
      }
    }
    if (live > 0) this.#startSweep();
  }
}

function handleKey(handle: Ticket["handle"]): string {
  return `${handle.hi}:${handle.lo}`;
}
