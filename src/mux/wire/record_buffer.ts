/**
 * Encoded records on their way into a batch: a staging buffer that grows, and is reused from batch to batch.
 *
 * An `append…` never refuses. Whoever stages asks {@linkcode encodedItemBytes} or {@linkcode encodedDataBytes} first
 * whether the record fits the batch; that keeps the policy (caps, pairs, singletons) in one place, the batcher.
 */
import { copyBytes } from "../../bytes.ts";
import {
  CLOSE_SLOT_BODY_BYTES,
  type CloseReason,
  CREDIT_BODY_BYTES,
  OPEN_SLOT_BODY_BYTES,
  RECORD_HEADER_BYTES,
  RecordType,
  writeU32,
  writeU64,
} from "./batch.ts";
import { itemHeaderBytes, type ItemKind, writeItemHeader } from "./stream_frame.ts";

/** Bytes of an encoded OpenSlot record. */
export const OPEN_SLOT_BYTES = RECORD_HEADER_BYTES + OPEN_SLOT_BODY_BYTES;
/** Bytes of an encoded CloseSlot record. */
export const CLOSE_SLOT_BYTES = RECORD_HEADER_BYTES + CLOSE_SLOT_BODY_BYTES;
/** Bytes of an encoded CreditUpdate record. */
export const CREDIT_BYTES = RECORD_HEADER_BYTES + CREDIT_BODY_BYTES;
/** Bytes of an encoded SlotHeartbeat record. */
export const HEARTBEAT_BYTES = RECORD_HEADER_BYTES;

/** Bytes of a whole Data record around a stream frame of `n` bytes. */
export function encodedDataBytes(n: number): number {
  return RECORD_HEADER_BYTES + n;
}

/** Bytes of a whole Data record that carries an Item with `n` payload bytes. */
export function encodedItemBytes(kind: ItemKind, n: number): number {
  return RECORD_HEADER_BYTES + itemHeaderBytes(kind, n) + n;
}

const RECORD_TYPES = Object.keys(RecordType).length;

/** A growable buffer of encoded records. */
export class RecordBuffer {
  /** Records encoded, by {@linkcode RecordType}. */
  readonly byType: Uint32Array = new Uint32Array(RECORD_TYPES);
  #bytes: Uint8Array<ArrayBuffer>;
  #length = 0;
  #count = 0;

  /** Starts with room for `initialBytes`. */
  constructor(initialBytes: number) {
    this.#bytes = new Uint8Array(Math.max(64, initialBytes));
  }

  /** The storage; only `[0, length)` means anything. Another array after the buffer has grown. */
  get bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes;
  }

  /** Bytes encoded. */
  get length(): number {
    return this.#length;
  }

  /** Records encoded. */
  get count(): number {
    return this.#count;
  }

  /** Forgets every record and keeps the storage. */
  reset(): void {
    this.#length = 0;
    this.#count = 0;
    this.byType.fill(0);
  }

  /** Grows the storage, if need be, so that `more` further bytes fit. */
  reserve(more: number): void {
    if (this.#length + more > this.#bytes.length) this.#grow(this.#length + more);
  }

  /** Data: the stream frame `src[start, end)`, copied. */
  appendData(slot: number, seq: number, src: Uint8Array, start: number, end: number): void {
    const n = end - start;
    const at = this.#record(RecordType.data, slot, seq, n);
    copyBytes(this.#bytes, at, src, start, end);
  }

  /** Data: the stream frame `Item(bin)` around `src[start, end)`, copied. */
  appendItemData(slot: number, seq: number, src: Uint8Array, start: number, end: number): void {
    this.#item("data", slot, seq, src, start, end);
  }

  /** Data: the stream frame `Item(str)`; `utf8` must be valid UTF-8. */
  appendItemText(slot: number, seq: number, utf8: Uint8Array): void {
    this.#item("text", slot, seq, utf8, 0, utf8.length);
  }

  /** OpenSlot; always the first record of its slot, so its sequence is 0 on a fresh slot. */
  appendOpenSlot(slot: number, anchorId: bigint, sessionId: bigint, seq = 0): void {
    const at = this.#record(RecordType.openSlot, slot, seq, OPEN_SLOT_BODY_BYTES);
    writeU64(this.#bytes, at, anchorId);
    writeU64(this.#bytes, at + 8, sessionId);
  }

  /** CloseSlot; `seq` is 0 when the slot is the peer's. */
  appendClose(slot: number, seq: number, reason: CloseReason): void {
    const at = this.#record(RecordType.closeSlot, slot, seq, CLOSE_SLOT_BODY_BYTES);
    this.#bytes[at] = reason;
  }

  /** CreditUpdate for a slot of the peer's; carries sequence 0. */
  appendCredit(slot: number, delta: number): void {
    const at = this.#record(RecordType.creditUpdate, slot, 0, CREDIT_BODY_BYTES);
    writeU32(this.#bytes, at, delta);
  }

  /** SlotHeartbeat. */
  appendHeartbeat(slot: number, seq: number): void {
    this.#record(RecordType.heartbeat, slot, seq, 0);
  }

  #item(kind: ItemKind, slot: number, seq: number, src: Uint8Array, start: number, end: number): void {
    const n = end - start;
    let at = this.#record(RecordType.data, slot, seq, itemHeaderBytes(kind, n) + n);
    at = writeItemHeader(this.#bytes, at, kind, n);
    copyBytes(this.#bytes, at, src, start, end);
  }

  /** Writes a record header, makes room for its body and returns where the body starts. */
  #record(type: RecordType, slot: number, seq: number, bodyBytes: number): number {
    const at = this.#length;
    const end = at + RECORD_HEADER_BYTES + bodyBytes;
    this.reserve(end - at);
    const bytes = this.#bytes;
    bytes[at] = type;
    writeU32(bytes, at + 1, slot);
    writeU32(bytes, at + 5, seq);
    writeU32(bytes, at + 9, bodyBytes);
    this.#length = end;
    this.#count++;
    this.byType[type]!++;
    return at + RECORD_HEADER_BYTES;
  }

  #grow(needed: number): void {
    const grown = new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}
