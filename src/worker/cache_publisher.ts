/**
 * Reports what is in the caches of this worker's engine to its frontends, and answers those that missed something.
 *
 * Events are gathered for a short while and leave as one message to each frontend. The whole of each cache is kept here by
 * name, for snapshots.
 */
import type { Clock, TimerHandle } from "../clock.ts";
import type { MessengerPort } from "../messenger/types.ts";
import { TokenplaneError } from "../errors.ts";
import { EventsWriter, KV_EVENTS_HANDLER, KV_SNAPSHOT_HANDLER } from "../routing/kv/cache_events.ts";
import type { InstanceId } from "../../transports/contract.ts";
import type { CacheEvents } from "./engines/mocker/block_manager.ts";

/** What a {@linkcode CachePublisher} is made with. */
export interface CachePublisherOptions {
  readonly messenger: MessengerPort;
  readonly clock: Clock;
  /** Frontends that this worker is joined to now. */
  readonly frontends: () => Iterable<InstanceId>;
}

/** How long events wait for others, ms. A request that needs them an instant earlier costs its prefill once more. */
const GATHER_MS = 5;
/** A message is not let grow over this, bytes: under what travels in one frame. */
const MAX_MESSAGE_BYTES = 196_608;
const CONTROL_LANE = 0;
const TWO_TO_32 = 0x1_0000_0000;

interface Block {
  readonly parent: number | null;
  readonly local: readonly [number, number];
}

/** One engine's cache. */
class Cache {
  readonly writer = new EventsWriter();
  /** By the engine's name, in the order in which they were stored: a parent is in front of its children. */
  readonly blocks = new Map<number, Block>();
  /** Number of the first event that has not been sent. */
  nextEvent = 0n;
}

/** See the head of this file. */
export class CachePublisher {
  readonly #options: CachePublisherOptions;
  readonly #caches: Cache[] = [];
  /** Of snapshots: they do not disturb the events that are being gathered. */
  readonly #snapshots = new EventsWriter();
  #timer: TimerHandle | null = null;
  #isClosed = false;
  /** Messages and events sent, to all frontends together, and snapshots given. */
  readonly stats = { messages: 0, snapshots: 0 };

  /** Registers the handler for snapshots. */
  constructor(options: CachePublisherOptions) {
    this.#options = options;
    options.messenger.handleBytes(KV_SNAPSHOT_HANDLER, (payload) => this.#snapshot(payload));
  }

  /** Where the cache of a logical worker tells what happens in it. */
  eventsOf(virtualWorker: number): CacheEvents {
    const cache = this.#caches[virtualWorker] = new Cache();
    return {
      onStored: (parent, block, index, source) => {
        const local = source.localHashAt(index);
        cache.blocks.set(block, { parent, local });
        writeStored(cache.writer, parent, block, local);
        this.#gather(cache, virtualWorker);
      },
      onRemoved: (block) => {
        cache.blocks.delete(block);
        cache.writer.removed(low(block), high(block));
        this.#gather(cache, virtualWorker);
      },
    };
  }

  /** Sends nothing more. */
  close(): void {
    this.#isClosed = true;
    if (this.#timer !== null) this.#options.clock.clearTimer(this.#timer);
    this.#timer = null;
  }

  #gather(cache: Cache, virtualWorker: number): void {
    if (cache.writer.length >= MAX_MESSAGE_BYTES) this.#send(cache, virtualWorker);
    if (this.#timer !== null || this.#isClosed) return;
    this.#timer = this.#options.clock.setTimer(() => {
      this.#timer = null;
      this.#caches.forEach((other, index) => this.#send(other, index));
    }, GATHER_MS);
  }

  #send(cache: Cache, virtualWorker: number): void {
    const { events } = cache.writer;
    if (events === 0) return;
    const firstEvent = cache.nextEvent;
    cache.nextEvent += BigInt(events);
    const view = cache.writer.finish({ isSnapshot: false, virtualWorker, firstEvent });
    if (this.#isClosed) return;
    // What cannot be admitted at once is kept by the messenger until it is.
    const message = view.slice();
    for (const frontend of this.#options.frontends()) {
      this.stats.messages++;
      // A report that is lost is missed by its number.
      this.#options.messenger.sendOneWay(frontend, CONTROL_LANE, KV_EVENTS_HANDLER, [message], ignore);
    }
  }

  #snapshot(payload: Uint8Array): Uint8Array {
    const virtualWorker = payload.length === 2 ? payload[0]! + 256 * payload[1]! : -1;
    const cache = this.#caches[virtualWorker];
    if (cache === undefined) {
      throw new TokenplaneError("invalid_request", "Cannot show a cache: there is no such logical worker");
    }
    // What is gathered is in the snapshot already: it must not come behind it.
    this.#send(cache, virtualWorker);
    this.stats.snapshots++;
    for (const [block, { parent, local }] of cache.blocks) writeStored(this.#snapshots, parent, block, local);
    return this.#snapshots.finish({ isSnapshot: true, virtualWorker, firstEvent: cache.nextEvent });
  }
}

function writeStored(
  writer: EventsWriter,
  parent: number | null,
  block: number,
  local: readonly [number, number],
): void {
  writer.stored(parent === null ? null : [low(parent), high(parent)], low(block), high(block), local);
}

function low(name: number): number {
  return name % TWO_TO_32;
}

function high(name: number): number {
  return Math.floor(name / TWO_TO_32);
}

function ignore(): void {}
