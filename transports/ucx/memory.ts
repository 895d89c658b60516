/**
 * Owns every buffer that native code may touch, until its completion.
 *
 * A posted send outlives the call that posted it, and nothing in the runtime keeps its buffer alive or in place for that
 * time. So buffers come from blocks that live as long as the transport, cut into slots of a few size classes; a slot is
 * taken before a send is posted and given back by whichever of the three exits of the send applies.
 */
import { TokenplaneError } from "../../src/errors.ts";
import { addressOf } from "./symbols.ts";

/** Slot sizes in bytes, ascending: control, a 4 KiB message, a small and a full batch. */
const CLASS_BYTES: readonly number[] = [1_024, 8_192, 20_480, 81_920];
/** Slots of each class allocated together. */
const BLOCK_SLOTS: readonly number[] = [64, 32, 16, 8];
/** Larger slots are single allocations; at most this many bytes of them are kept for reuse. */
const MAX_KEPT_LARGE_BYTES = 4_194_304;

/** One buffer. Whoever took it may write it and must give it back once. */
export interface Slot {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Native address of the first byte. */
  readonly address: bigint;
  /** Index of its size class; the number of classes for a single allocation. */
  readonly sizeClass: number;
  /** Written by {@linkcode NativeMemory} alone. */
  taken: boolean;
}

/** Buffers for posted sends. */
export class NativeMemory {
  readonly #free: Slot[][] = CLASS_BYTES.map(() => []);
  #large: Slot[] = [];
  #keptLargeBytes = 0;
  #taken = 0;
  #allocatedBytes = 0;

  constructor() {
    for (let sizeClass = 0; sizeClass < CLASS_BYTES.length - 1; sizeClass++) this.#grow(sizeClass);
  }

  /** Slots taken and not given back: zero when every send has settled. */
  get taken(): number {
    return this.#taken;
  }

  /** Bytes held, taken or free. */
  get allocatedBytes(): number {
    return this.#allocatedBytes;
  }

  /** A slot of at least `bytes` bytes. */
  take(bytes: number): Slot {
    this.#taken++;
    for (let sizeClass = 0; sizeClass < CLASS_BYTES.length; sizeClass++) {
      if (bytes > CLASS_BYTES[sizeClass]!) continue;
      const free = this.#free[sizeClass]!;
      if (free.length === 0) this.#grow(sizeClass);
      const slot = free.pop()!;
      slot.taken = true;
      return slot;
    }
    const slot = this.#takeLarge(bytes);
    slot.taken = true;
    return slot;
  }

  /** Gives a slot back. A second time is a bug of ours, and would hand one buffer to two sends: it throws. */
  give(slot: Slot): void {
    if (!slot.taken) {
      throw new TokenplaneError("internal", "Cannot give back a buffer: it has not been taken");
    }
    slot.taken = false;
    this.#taken--;
    if (slot.sizeClass < CLASS_BYTES.length) {
      this.#free[slot.sizeClass]!.push(slot);
      return;
    }
    if (this.#keptLargeBytes + slot.bytes.length > MAX_KEPT_LARGE_BYTES) {
      this.#allocatedBytes -= slot.bytes.length;
      return;
    }
    this.#keptLargeBytes += slot.bytes.length;
    this.#large.push(slot);
  }

  /** Drops every free buffer. Taken ones stay with their takers. */
  clear(): void {
    for (const free of this.#free) free.length = 0;
    this.#large = [];
    this.#keptLargeBytes = 0;
  }

  #grow(sizeClass: number): void {
    const size = CLASS_BYTES[sizeClass]!;
    const count = BLOCK_SLOTS[sizeClass]!;
    const block = new Uint8Array(size * count);
    const base = addressOf(block);
    this.#allocatedBytes += block.length;
    const free = this.#free[sizeClass]!;
    for (let index = count - 1; index >= 0; index--) {
      free.push({
        bytes: block.subarray(index * size, (index + 1) * size),
        address: base + BigInt(index * size),
        sizeClass,
        taken: false,
      });
    }
  }

  #takeLarge(bytes: number): Slot {
    const index = this.#large.findIndex((slot) => slot.bytes.length >= bytes);
    if (index >= 0) {
      const [slot] = this.#large.splice(index, 1);
      this.#keptLargeBytes -= slot!.bytes.length;
      return slot!;
    }
    const rounded = 2 ** Math.ceil(Math.log2(bytes));
    const block = new Uint8Array(rounded);
    this.#allocatedBytes += rounded;
    return { bytes: block, address: addressOf(block), sizeClass: CLASS_BYTES.length, taken: false };
  }
}

/** A structure to be passed to native code. It must stay referenced for as long as native code may read it. */
export interface Structure {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly view: DataView;
  readonly address: bigint;
}

/** A zeroed structure of `size` bytes. */
export function structure(size: number): Structure {
  const bytes = new Uint8Array(size);
  return { bytes, view: new DataView(bytes.buffer), address: addressOf(bytes) };
}
