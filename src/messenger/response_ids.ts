/**
 * Response ids: who asked, and for which of its pending calls.
 *
 * bytes 0..8 worker id of the requester, 8..10 slot, 10..16 generation; all little-endian. Each slot's generation
 * rises by one when the slot is given back, so an answer that comes too late finds nothing.
 */
import { writeU16 } from "./envelope.ts";

/** Slots of one arena; index 65,535 is never handed out. */
export const ARENA_SLOTS = 65_535;
const MAX_GENERATION = 2 ** 48 - 1;
const NONE = -1;

/** The 8 bytes of a worker id, little-endian. */
export function workerIdBytes(workerId: bigint): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, workerId, true);
  return bytes;
}

/** Reads a worker id at `at`. */
export function readWorkerId(bytes: Uint8Array, at: number): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getBigUint64(at, true);
}

/** Slots for what waits for an answer. `T` is whatever the owner keeps per pending call. */
export class ResponseArena<T> {
  readonly #workerId: Uint8Array;
  readonly #capacity: number;
  readonly #generations: number[] = [];
  readonly #values: (T | undefined)[] = [];
  /** FIFO of free slots as a linked list, so that a slot rests as long as possible before it is used again. */
  readonly #next: Uint16Array;
  #head = NONE;
  #tail = NONE;
  /** Slots beyond this one have never been used. */
  #fresh = 0;
  #pending = 0;
  /** Times that no slot was free. */
  exhausted = 0;

  constructor(workerId: bigint, capacity = ARENA_SLOTS) {
    this.#workerId = workerIdBytes(workerId);
    this.#capacity = Math.min(capacity, ARENA_SLOTS);
    this.#next = new Uint16Array(this.#capacity);
  }

  /** Calls that wait for an answer. */
  get pending(): number {
    return this.#pending;
  }

  /** Takes a slot for `value` and writes its response id to `header[at…]`; -1 when every slot is taken. */
  acquire(value: T, header: Uint8Array, at: number): number {
    const slot = this.#take();
    if (slot === NONE) {
      this.exhausted++;
      return NONE;
    }
    this.#values[slot] = value;
    this.#pending++;
    this.#write(slot, header, at);
    return slot;
  }

  /**
   * Writes a response id that nobody will answer (fire and forget) and gives its slot back at once. With every slot
   * taken it is the index that is never handed out: stream data must not wait for somebody's slow call.
   */
  stamp(header: Uint8Array, at: number): void {
    const slot = this.#take();
    if (slot === NONE) {
      header.set(this.#workerId, at);
      writeU16(header, at + 8, ARENA_SLOTS);
      header.fill(0, at + 10, at + 16);
      return;
    }
    this.#write(slot, header, at);
    this.#giveBack(slot);
  }

  /** What waits under the response id at `bytes[at…]`, without giving the slot back. */
  find(bytes: Uint8Array, at: number): { slot: number; value: T } | null {
    if (bytes.length < at + 16) return null;
    for (let i = 0; i < 8; i++) if (bytes[at + i] !== this.#workerId[i]) return null;
    const slot = bytes[at + 8]! | (bytes[at + 9]! << 8);
    const value = this.#values[slot];
    if (value === undefined || this.#generations[slot] !== readGeneration(bytes, at + 10)) return null;
    return { slot, value };
  }

  /** Gives a slot back; what waited under it is forgotten. A slot that is not taken is ignored. */
  release(slot: number): void {
    if (this.#values[slot] === undefined) return;
    this.#values[slot] = undefined;
    this.#pending--;
    this.#giveBack(slot);
  }

  /** Calls `visit` for everything that waits; it may release slots. */
  forEach(visit: (value: T, slot: number) => void): void {
    for (let slot = 0; slot < this.#values.length; slot++) {
      const value = this.#values[slot];
      if (value !== undefined) visit(value, slot);
    }
  }

  #take(): number {
    const slot = this.#head;
    if (slot !== NONE) {
      this.#head = slot === this.#tail ? NONE : this.#next[slot]!;
      if (this.#head === NONE) this.#tail = NONE;
      return slot;
    }
    if (this.#fresh >= this.#capacity) return NONE;
    this.#generations.push(0);
    this.#values.push(undefined);
    return this.#fresh++;
  }

  #giveBack(slot: number): void {
    const generation = this.#generations[slot]! + 1;
    this.#generations[slot] = generation;
    if (generation > MAX_GENERATION) return;
    if (this.#tail === NONE) this.#head = slot;
    else this.#next[this.#tail] = slot;
    this.#tail = slot;
  }

  #write(slot: number, header: Uint8Array, at: number): void {
    header.set(this.#workerId, at);
    writeU16(header, at + 8, slot);
    let generation = this.#generations[slot]!;
    for (let i = 0; i < 6; i++) {
      header[at + 10 + i] = generation % 256;
      generation = Math.floor(generation / 256);
    }
  }
}

function readGeneration(bytes: Uint8Array, at: number): number {
  let generation = 0;
  for (let i = 5; i >= 0; i--) generation = generation * 256 + bytes[at + i]!;
  return generation;
}
