/**
 * How a worker reports its cache: payload of `_tp_kv_events` (one way) and of the answer to `_tp_kv_snapshot`.
 * Integers are little-endian.
 *
 * | at | bytes | |
 * |---|---|---|
 * | 0 | 1 | version, 1 |
 * | 1 | 1 | 1: a snapshot, what was known before is void; 0: goes on where the last message ended |
 * | 2 | 2 | virtual worker |
 * | 4 | 8 | number of the first event; those that follow count on. Of a snapshot: of the event that comes next |
 * | 12 | 4 | events, n |
 * | 16 | … | n events |
 *
 * | event | |
 * |---|---|
 * | stored | u8 1, u8 has parent, u64 parent if it has one, u16 count, then for each block: u64 block, u64 local hash |
 * | removed | u8 2, u8 0, u16 count, then u64 block for each |
 * | cleared | u8 3, u8 0 |
 *
 * Blocks are named as the worker's engine names them; of a chain of stored blocks each is the parent of the next.
 */
import { TokenplaneError } from "../../errors.ts";

/** A frontend's handler for reports. */
export const KV_EVENTS_HANDLER = "_tp_kv_events";
/** A worker's handler: asks for the whole cache of one virtual worker. */
export const KV_SNAPSHOT_HANDLER = "_tp_kv_snapshot";

/** Bytes in front of the events. */
export const EVENTS_HEADER_BYTES = 16;
/** Most blocks that one event names. */
export const MAX_EVENT_BLOCKS = 65_535;
const VERSION = 1;
const Kind = Object.freeze({ stored: 1, removed: 2, cleared: 3 });

/** What a message says before its events. */
export interface EventsHeader {
  readonly isSnapshot: boolean;
  readonly virtualWorker: number;
  readonly firstEvent: bigint;
  readonly events: number;
}

/** Takes the events of a message, in order. Hashes come as low and high half. */
export interface EventVisitor {
  /** A chain of `stored` calls begins behind this block; `hasParent` false: at the beginning of a prompt. */
  onParent(hasParent: boolean, lo: number, hi: number): void;
  onStored(lo: number, hi: number, localLo: number, localHi: number): void;
  onRemoved(lo: number, hi: number): void;
  onCleared(): void;
}

/** Reads the header. Throws `protocol`. */
export function readEventsHeader(bytes: Uint8Array): EventsHeader {
  if (bytes.length < EVENTS_HEADER_BYTES) throw malformed(`${bytes.length} bytes are too few`);
  const view = viewOf(bytes);
  if (bytes[0] !== VERSION) throw malformed(`version ${bytes[0]} is unknown, allowed is ${VERSION}`);
  if (bytes[1]! > 1) throw malformed("the snapshot flag must be 0 or 1");
  return {
    isSnapshot: bytes[1] === 1,
    virtualWorker: view.getUint16(2, true),
    firstEvent: view.getBigUint64(4, true),
    events: view.getUint32(12, true),
  };
}

/** Reads the events. Throws `protocol` at the first that breaks the layout; those before it have been visited. */
export function readEvents(bytes: Uint8Array, events: number, visitor: EventVisitor): void {
  const view = viewOf(bytes);
  let at = EVENTS_HEADER_BYTES;
  const need = (count: number): number => {
    if (at + count > bytes.length) throw malformed("it ends inside an event");
    return (at += count) - count;
  };
  for (let i = 0; i < events; i++) {
    const begin = need(2);
    const [kind, flag] = [bytes[begin]!, bytes[begin + 1]!];
    if (kind === Kind.stored && flag <= 1) {
      const parentAt = flag === 1 ? need(8) : -1;
      if (parentAt < 0) visitor.onParent(false, 0, 0);
      else visitor.onParent(true, view.getUint32(parentAt, true), view.getUint32(parentAt + 4, true));
      const count = view.getUint16(need(2), true);
      let block = need(16 * count);
      for (let k = 0; k < count; k++, block += 16) {
        visitor.onStored(
          view.getUint32(block, true),
          view.getUint32(block + 4, true),
          view.getUint32(block + 8, true),
          view.getUint32(block + 12, true),
        );
      }
    } else if (kind === Kind.removed && flag === 0) {
      const count = view.getUint16(need(2), true);
      let block = need(8 * count);
      for (let k = 0; k < count; k++, block += 8) {
        visitor.onRemoved(view.getUint32(block, true), view.getUint32(block + 4, true));
      }
    } else if (kind === Kind.cleared && flag === 0) {
      visitor.onCleared();
    } else throw malformed(`event ${i} is of an unknown kind`);
  }
  if (at !== bytes.length) throw malformed(`${bytes.length - at} bytes follow the last event`);
}

/** Writes messages; reused from one to the next. */
export class EventsWriter {
  #bytes = new Uint8Array(4_096);
  #view = viewOf(this.#bytes);
  #length = EVENTS_HEADER_BYTES;
  #events = 0;
  /** Where the count of the stored or removed event being written stands; -1: none. */
  #countAt = -1;
  #kind = 0;
  #count = 0;
  /** The last stored block, which the next one may follow. */
  #lastLo = 0;
  #lastHi = 0;

  /** Events so far. */
  get events(): number {
    return this.#events;
  }

  /** Bytes so far, the header included. */
  get length(): number {
    return this.#length;
  }

  /** A block was stored behind `parent` (halves; null: first of a prompt). Goes on with the last event if it can. */
  stored(
    parent: readonly [number, number] | null,
    lo: number,
    hi: number,
    local: readonly [number, number],
  ): void {
    const follows = this.#kind === Kind.stored && this.#count < MAX_EVENT_BLOCKS && parent !== null &&
      parent[0] === this.#lastLo && parent[1] === this.#lastHi;
    if (!follows) {
      this.#begin(Kind.stored, parent === null ? 0 : 1);
      if (parent !== null) this.#pair(parent[0], parent[1]);
      this.#openCount();
    }
    this.#pair(lo, hi);
    this.#pair(local[0], local[1]);
    this.#countOne();
    this.#lastLo = lo;
    this.#lastHi = hi;
  }

  /** A block was given up. */
  removed(lo: number, hi: number): void {
    if (this.#kind !== Kind.removed || this.#count === MAX_EVENT_BLOCKS) {
      this.#begin(Kind.removed, 0);
      this.#openCount();
    }
    this.#pair(lo, hi);
    this.#countOne();
  }

  /** Everything was given up. */
  cleared(): void {
    this.#begin(Kind.cleared, 0);
  }

  /** The message, a view that is good until the next call; the writer starts anew. */
  finish(header: Omit<EventsHeader, "events">): Uint8Array {
    const view = this.#view;
    this.#bytes[0] = VERSION;
    this.#bytes[1] = header.isSnapshot ? 1 : 0;
    view.setUint16(2, header.virtualWorker, true);
    view.setBigUint64(4, header.firstEvent, true);
    view.setUint32(12, this.#events, true);
    const message = this.#bytes.subarray(0, this.#length);
    this.#length = EVENTS_HEADER_BYTES;
    this.#events = 0;
    this.#kind = 0;
    return message;
  }

  #begin(kind: number, flag: number): void {
    this.#room(2);
    this.#bytes[this.#length++] = kind;
    this.#bytes[this.#length++] = flag;
    this.#kind = kind;
    this.#events++;
  }

  #openCount(): void {
    this.#room(2);
    this.#countAt = this.#length;
    this.#length += 2;
    this.#count = 0;
  }

  #countOne(): void {
    this.#view.setUint16(this.#countAt, ++this.#count, true);
  }

  #pair(lo: number, hi: number): void {
    this.#room(8);
    this.#view.setUint32(this.#length, lo, true);
    this.#view.setUint32(this.#length + 4, hi, true);
    this.#length += 8;
  }

  #room(bytes: number): void {
    if (this.#length + bytes <= this.#bytes.length) return;
    const larger = new Uint8Array(2 * this.#bytes.length);
    larger.set(this.#bytes);
    this.#bytes = larger;
    this.#view = viewOf(larger);
  }
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function malformed(why: string): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot read cache events: ${why}`);
}
