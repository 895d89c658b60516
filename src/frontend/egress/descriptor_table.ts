/**
 * The descriptors that one isolate owns beside the runtime, in memory that outlives it.
 *
 * An isolate that dies takes its connections with it, but not a duplicate of a connection's descriptor: that would keep
 * the connection open, and its client waiting, for as long as the process lives. So whoever supervises the isolate has
 * this table and closes what was left.
 */

/** Numbers from here on cannot be entered; a process has fewer. */
const MAX_DESCRIPTORS = 1 << 20;

/** A bit per descriptor number. Written by the isolate that owns them; read by its supervisor once that is dead. */
export class DescriptorTable {
  readonly memory: SharedArrayBuffer;
  readonly #words: Int32Array<SharedArrayBuffer>;

  /** @param memory of the table to share; default: a new one */
  constructor(memory: SharedArrayBuffer = new SharedArrayBuffer(MAX_DESCRIPTORS / 8)) {
    this.memory = memory;
    this.#words = new Int32Array(memory);
  }

  /** Enters a descriptor; false when there is no place for its number. */
  add(descriptor: number): boolean {
    if (descriptor < 0 || descriptor >= MAX_DESCRIPTORS) return false;
    Atomics.or(this.#words, descriptor >>> 5, 1 << (descriptor & 31));
    return true;
  }

  /** Takes a descriptor out; to be called before it is closed, as its number may be someone else's right after. */
  remove(descriptor: number): void {
    Atomics.and(this.#words, descriptor >>> 5, ~(1 << (descriptor & 31)));
  }

  get isEmpty(): boolean {
    return this.#words.every((word) => word === 0);
  }

  /** Takes all out. */
  takeAll(): number[] {
    const taken: number[] = [];
    for (let word = 0; word < this.#words.length; word++) {
      const bits = Atomics.exchange(this.#words, word, 0);
      for (let bit = 0; bits !== 0 && bit < 32; bit++) {
        if ((bits >>> bit & 1) !== 0) taken.push(word * 32 + bit);
      }
    }
    return taken;
  }
}
