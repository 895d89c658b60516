/** What a sender could not send yet: frames in order, bounded in bytes. */

/** FIFO of encoded StreamFrame bodies. Accepts one frame of any size when empty (wire: withheld queue). */
export class WithheldQueue {
  #frames: Uint8Array[] = [];
  #head = 0;
  /** Bytes of all frames that wait. */
  bytes = 0;

  get length(): number {
    return this.#frames.length - this.#head;
  }

  /** Whether a frame of `size` bytes may be added under `budget` bytes. */
  hasRoom(size: number, budget: number): boolean {
    return this.length === 0 || this.bytes + size <= budget;
  }

  push(frame: Uint8Array): void {
    this.#frames.push(frame);
    this.bytes += frame.length;
  }

  peek(): Uint8Array | undefined {
    return this.#frames[this.#head];
  }

  /** Drops the head, which `peek` has shown. */
  shift(): void {
    const frame = this.#frames[this.#head];
    if (frame === undefined) return;
    this.bytes -= frame.length;
    // Compaction is rare and amortised: moving one element per shift is what makes arrays slow as queues.
    if (++this.#head >= 64 && this.#head * 2 >= this.#frames.length) {
      this.#frames = this.#frames.slice(this.#head);
      this.#head = 0;
    }
  }

  /** Forgets everything; returns how many frames there were. */
  clear(): number {
    const count = this.length;
    this.#frames = [];
    this.#head = 0;
    this.bytes = 0;
    return count;
  }
}
