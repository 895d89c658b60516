/** The slots that a batcher has given to its streams: dense indexes from a LIFO free list, generations that outlive epochs. */
import { MAX_SLOT_INDEX, nextGeneration, packSlot, slotIndex } from "./wire/slot_id.ts";
import type { EgressStream } from "./egress_stream.ts";

/** Table of live egress slots. */
export class EgressSlots {
  #streams: (EgressStream | null)[] = [];
  #generations: number[] = [];
  #free: number[] = [];
  /** Slots in use. */
  live = 0;

  /** Gives the stream a slot and returns its id, or -1 when every index is taken. */
  allocate(stream: EgressStream, limit: number): number {
    let index = this.#free.pop();
    if (index === undefined) {
      index = this.#streams.length;
      if (index >= limit || index > MAX_SLOT_INDEX) return -1;
      this.#generations.push(0);
      this.#streams.push(null);
    }
    this.#streams[index] = stream;
    this.live++;
    return packSlot(index, this.#generations[index]!);
  }

  /** The stream that holds exactly this slot id, generation included. */
  get(slot: number): EgressStream | null {
    const stream = this.#streams[slotIndex(slot)];
    return stream !== undefined && stream !== null && stream.slot === slot ? stream : null;
  }

  /** Takes a slot back; its next user gets another generation. */
  release(slot: number): void {
    const index = slotIndex(slot);
    if (this.get(slot) === null) return;
    this.#streams[index] = null;
    this.#generations[index] = nextGeneration(this.#generations[index]!);
    this.#free.push(index);
    this.live--;
  }

  /** A copy of the live streams, safe to end while it is walked. */
  streams(): EgressStream[] {
    return this.#streams.filter((stream): stream is EgressStream => stream !== null);
  }
}
