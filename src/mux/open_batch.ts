/** A batch that is being filled. A batcher has two: one to fill while the other waits to be admitted. */
import { BATCH_HEADER_BYTES, MAX_RECORDS, patchBatchHeader, writeBatchHeader } from "./wire/batch.ts";
import { RecordBuffer } from "./wire/record_buffer.ts";
import type { EgressStream } from "./egress_stream.ts";
import type { Admission } from "../../transports/contract.ts";

/** Header, then what must not wait (grants, rejections, beats), then opens, data and closes in the order of staging. */
export class OpenBatch {
  readonly urgent = new RecordBuffer(1_024);
  readonly data = new RecordBuffer(4_096);
  /** Streams whose OpenSlot is in here and which are fenced until it has been admitted. */
  readonly fencedOpens: EgressStream[] = [];
  /** What its admission calls: one function for the life of the object. */
  readonly admission: Admission;
  readonly #header = new Uint8Array(BATCH_HEADER_BYTES);
  // Filled in place: an array that is emptied loses its storage.
  readonly #two: [Uint8Array, Uint8Array] = [this.#header, this.#header];
  readonly #three: [Uint8Array, Uint8Array, Uint8Array] = [this.#header, this.#header, this.#header];
  #headerEpoch = 0n;

  constructor(admission: Admission) {
    this.admission = admission;
  }

  get count(): number {
    return this.urgent.count + this.data.count;
  }

  /** Bytes of the whole batch as it stands. */
  get bytes(): number {
    return BATCH_HEADER_BYTES + this.urgent.length + this.data.length;
  }

  /** Whether `size` more bytes in `records` more records stay under `cap` bytes. */
  hasRoom(size: number, records: number, cap: number): boolean {
    return this.bytes + size <= cap && this.count + records <= MAX_RECORDS;
  }

  /**
   * The batch, which holds something, as payload parts, valid until the next change to this object. `flags` must be
   * the same for all batches of an epoch.
   */
  seal(flags: number, epoch: bigint, seq: number): readonly Uint8Array[] {
    const { urgent, data } = this;
    if (epoch === this.#headerEpoch) {
      // All but the count and the sequence is as it was; big integers cost more than all the rest.
      patchBatchHeader(this.#header, this.count, seq);
    } else {
      writeBatchHeader(this.#header, 0, flags, this.count, epoch, seq);
      this.#headerEpoch = epoch;
    }
    if (urgent.count > 0 && data.count > 0) {
      this.#three[1] = urgent.bytes.subarray(0, urgent.length);
      this.#three[2] = data.bytes.subarray(0, data.length);
      return this.#three;
    }
    const { bytes, length } = urgent.count > 0 ? urgent : data;
    this.#two[1] = bytes.subarray(0, length);
    return this.#two;
  }

  /** Adds the batch's records, by type, to `into`. */
  countTypes(into: Float64Array): void {
    for (let type = 0; type < into.length; type++) {
      into[type]! += this.urgent.byType[type]! + this.data.byType[type]!;
    }
  }

  reset(): void {
    this.urgent.reset();
    this.data.reset();
    if (this.fencedOpens.length > 0) this.fencedOpens.length = 0;
  }
}
