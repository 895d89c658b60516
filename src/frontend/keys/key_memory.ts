/**
 * How much of its limits each key has used, in memory that all shards of a process share: what one takes, the others see
 * at once, without a message.
 *
 * | words | per | meaning | written by |
 * |---|---|---|---|
 * | 64 bits | place | when the key's minute would be free again, in ns since the epoch; past: it is | any shard, by compare and exchange |
 * | 32 bits | place and column | requests under way | the shard that has the column; `forget` once that is dead |
 *
 * A place belongs to a key, a column to a shard's isolate. The first word is the _theoretical arrival time_ of the generic
 * cell rate algorithm, which is a token bucket in one number: it can be exchanged at once, so that the limit is exact
 * whatever shards race. The number of requests under way is the sum over the columns. Each shard enters first and looks
 * then: two that race for the last place may both be refused, never both be let in. A column of its own lets the requests
 * of a shard that died be forgotten.
 */

/** Twice the keys there can be: those of a key that was taken out are in use until its last request has ended. */
export const PLACES = 2_048;
/** The time in which a key may ask `rpm` times, ns. */
const MINUTE_NS = 60_000_000_000n;

/** What the rate of a key says to one request. */
export interface Turn {
  readonly isAllowed: boolean;
  /** Requests that would be allowed right now. */
  readonly remaining: number;
  /** Until the whole rate is there again, ms. */
  readonly resetMs: number;
  /** Until the next request is allowed, ms; 0: right now. */
  readonly waitMs: number;
}

/** See above. */
export class KeyMemory {
  readonly shared: SharedArrayBuffer;
  readonly columns: number;
  readonly #times: BigInt64Array<SharedArrayBuffer>;
  readonly #running: Int32Array<SharedArrayBuffer>;

  /**
   * @param columns 1 to 128
   * @param shared memory of another one with as many columns; default: a new one
   */
  constructor(
    columns: number,
    shared: SharedArrayBuffer = new SharedArrayBuffer(PLACES * (8 + 4 * columns)),
  ) {
    this.columns = columns;
    this.shared = shared;
    this.#times = new BigInt64Array(shared, 0, PLACES);
    this.#running = new Int32Array(shared, PLACES * 8, PLACES * columns);
  }

  /** Counts a request as under way; false, and not counted, when there would be more than `limit` (0: none). */
  enter(place: number, column: number, limit: number): boolean {
    Atomics.add(this.#running, place * this.columns + column, 1);
    if (limit === 0 || this.running(place) <= limit) return true;
    this.leave(place, column);
    return false;
  }

  /** A request that was entered has ended. */
  leave(place: number, column: number): void {
    Atomics.sub(this.#running, place * this.columns + column, 1);
  }

  /** Requests of a key under way in the whole process. */
  running(place: number): number {
    let sum = 0;
    for (let column = 0; column < this.columns; column++) sum += this.runningIn(place, column);
    return sum;
  }

  /** The same in one shard. */
  runningIn(place: number, column: number): number {
    return Atomics.load(this.#running, place * this.columns + column);
  }

  /** Takes one of the requests that a key has in a minute, if it has one. @param nowNs since the epoch */
  takeTurn(place: number, rpm: number, nowNs: bigint): Turn {
    const step = MINUTE_NS / BigInt(rpm);
    const last = nowNs + step * BigInt(rpm);
    for (;;) {
      const seen = Atomics.load(this.#times, place);
      if (seen > last) {
        // Only a clock that was set back can have put it there: the rate is used up, but for no longer than a minute.
        Atomics.compareExchange(this.#times, place, seen, last);
        continue;
      }
      const free = seen < nowNs ? nowNs : seen;
      const next = free + step;
      if (next > last) {
        return { isAllowed: false, remaining: 0, resetMs: toMs(free - nowNs), waitMs: toMs(next - last) };
      }
      if (Atomics.compareExchange(this.#times, place, seen, next) !== seen) continue;
      const room = last - next;
      return {
        isAllowed: true,
        remaining: Number(room / step),
        resetMs: toMs(next - nowNs),
        waitMs: room >= step ? 0 : toMs(step - room),
      };
    }
  }

  /** A shard is dead, and so are its requests. Not before its last one can have run. */
  forget(column: number): void {
    for (let place = 0; place < PLACES; place++) {
      Atomics.store(this.#running, place * this.columns + column, 0);
    }
  }

  /** Gives a place to another key. */
  clear(place: number): void {
    Atomics.store(this.#times, place, 0n);
  }
}

function toMs(ns: bigint): number {
  return Number(ns) / 1e6;
}
