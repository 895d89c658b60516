/**
 * The mux batch: one header, then records. All integers are big-endian.
 *
 * | offset | size | header field | | offset | size | record field |
 * |---|---|---|---|---|---|---|
 * | 0 | 1 | version = 1 | | 0 | 1 | record type |
 * | 1 | 1 | flags (sent as 0 unless negotiated) | | 1 | 4 | slot id |
 * | 2 | 2 | record count | | 5 | 4 | frame sequence |
 * | 4 | 8 | peer epoch | | 9 | 4 | body length |
 * | 12 | 4 | batch sequence | | 13 | length | body |
 */

/** The one version this side speaks. */
export const MUX_VERSION = 1;
/** Bytes of a batch header. */
export const BATCH_HEADER_BYTES = 16;
/** Bytes of a record header. */
export const RECORD_HEADER_BYTES = 13;
/** Records that one batch can count. */
export const MAX_RECORDS = 65_535;
/** Bytes of an OpenSlot body: anchor id and session id, u64 each. */
export const OPEN_SLOT_BODY_BYTES = 16;
/** Bytes of a CloseSlot body: the reason. */
export const CLOSE_SLOT_BODY_BYTES = 1;
/** Bytes of a CreditUpdate body: the delta, u32. */
export const CREDIT_BODY_BYTES = 4;

/** What a record is. */
export const RecordType = Object.freeze({
  data: 0,
  openSlot: 1,
  closeSlot: 2,
  creditUpdate: 3,
  heartbeat: 4,
});
/** One of {@linkcode RecordType}. */
export type RecordType = (typeof RecordType)[keyof typeof RecordType];

/** Why a slot closes. 0 and 1 close a slot of the sender's own, 2 and 3 reject a slot of the receiver's. */
export const CloseReason = Object.freeze({ terminalSent: 0, peerGone: 1, unknownSlot: 2, protocolError: 3 });
/** One of {@linkcode CloseReason}. */
export type CloseReason = (typeof CloseReason)[keyof typeof CloseReason];

/** A decoded header. One object may be reused for every batch. */
export interface BatchHeader {
  version: number;
  flags: number;
  recordCount: number;
  epoch: bigint;
  seq: number;
}

/** A header object for {@linkcode readBatchHeader} to fill. */
export function newBatchHeader(): BatchHeader {
  return { version: 0, flags: 0, recordCount: 0, epoch: 0n, seq: 0 };
}

/** Writes a header at `offset`; the caller has made room for {@linkcode BATCH_HEADER_BYTES}. */
export function writeBatchHeader(
  buf: Uint8Array,
  offset: number,
  flags: number,
  recordCount: number,
  epoch: bigint,
  seq: number,
): void {
  buf[offset] = MUX_VERSION;
  buf[offset + 1] = flags;
  buf[offset + 2] = recordCount >>> 8;
  buf[offset + 3] = recordCount;
  writeU64(buf, offset + 4, epoch);
  writeU32(buf, offset + 12, seq);
}

/** Changes what differs from one batch of an epoch to the next, in a header that starts `buf`. */
export function patchBatchHeader(buf: Uint8Array, recordCount: number, seq: number): void {
  buf[2] = recordCount >>> 8;
  buf[3] = recordCount;
  writeU32(buf, 12, seq);
}

/**
 * Reads a header into `into`. False, and nothing written, when `bytes` is too short for one. The version is not
 * checked here: what a batch of another version carried is still metered by its count.
 */
export function readBatchHeader(bytes: Uint8Array, into: BatchHeader): boolean {
  if (bytes.length < BATCH_HEADER_BYTES) return false;
  into.version = bytes[0]!;
  into.flags = bytes[1]!;
  into.recordCount = (bytes[2]! << 8) | bytes[3]!;
  into.epoch = readU64(bytes, 4);
  into.seq = readU32(bytes, 12);
  return true;
}

/** Takes the records of a batch, in order. */
export interface RecordVisitor {
  /** One record; its body is `bytes[bodyStart, bodyEnd)` of the batch that is being decoded. */
  onRecord(type: RecordType, slot: number, frameSeq: number, bodyStart: number, bodyEnd: number): void;
}

/** What is wrong with a batch. */
export type BatchErrorCode =
  | "short_header" // fewer bytes than a batch header
  | "unknown_version"
  | "count_mismatch" // the batch ends on a record boundary, before its count
  | "truncated" // the batch ends inside a record
  | "unknown_type"
  | "bad_length" // a fixed body of another length
  | "unknown_reason"
  | "trailing_bytes";

/** The first error of a batch. `offset` is that of the record concerned, in bytes from the start of the batch. */
export interface BatchError {
  readonly code: BatchErrorCode;
  readonly offset: number;
  readonly message: string;
}

/**
 * Decodes the records behind a header. Records before the first error have been visited, none after it. Nothing is
 * allocated, whatever the bytes claim, except the error.
 */
export function decodeRecords(
  bytes: Uint8Array,
  recordCount: number,
  visitor: RecordVisitor,
): BatchError | null {
  const size = bytes.length;
  if (size < BATCH_HEADER_BYTES) {
    return batchError("short_header", 0, `it must hold ${BATCH_HEADER_BYTES} header bytes, not ${size}`);
  }
  if (bytes[0] !== MUX_VERSION) {
    return batchError("unknown_version", 0, `version ${bytes[0]} is not ${MUX_VERSION}`);
  }
  let at = BATCH_HEADER_BYTES;
  for (let n = 0; n < recordCount; n++) {
    if (size - at < RECORD_HEADER_BYTES) {
      return at === size
        ? batchError("count_mismatch", at, `it counts ${recordCount} records and holds ${n}`)
        : batchError("truncated", at, `record ${n} ends inside its header`);
    }
    const type = bytes[at]!;
    const length = readU32(bytes, at + 9);
    const bodyStart = at + RECORD_HEADER_BYTES;
    if (type !== RecordType.data) {
      const fixed = fixedBodyBytes(type);
      if (fixed < 0) return batchError("unknown_type", at, `record type ${type} is unknown`);
      if (length !== fixed) {
        return batchError("bad_length", at, `a body of record type ${type} is ${fixed} bytes, not ${length}`);
      }
    }
    if (length > size - bodyStart) {
      return batchError(
        "truncated",
        at,
        `record ${n} declares ${length} bytes and ${size - bodyStart} are left`,
      );
    }
    if (type === RecordType.closeSlot && bytes[bodyStart]! > CloseReason.protocolError) {
      return batchError("unknown_reason", at, `close reason ${bytes[bodyStart]} is unknown`);
    }
    const bodyEnd = bodyStart + length;
    visitor.onRecord(type as RecordType, readU32(bytes, at + 1), readU32(bytes, at + 5), bodyStart, bodyEnd);
    at = bodyEnd;
  }
  if (at !== size) {
    return batchError("trailing_bytes", at, `${size - at} bytes follow its ${recordCount} records`);
  }
  return null;
}

/** Batches lost between `last` and `received`, modulo 2^32; a regression reads as a huge gap. */
export function sequenceGap(last: number, received: number): number {
  return (received - last - 1) >>> 0;
}

/** Reads a big-endian u32. The caller has checked that four bytes are there. */
export function readU32(bytes: Uint8Array, at: number): number {
  return ((bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!) >>> 0;
}

/** Reads a big-endian u64. The caller has checked that eight bytes are there. */
export function readU64(bytes: Uint8Array, at: number): bigint {
  const high = readU32(bytes, at);
  const low = readU32(bytes, at + 4);
  // Below 2^53 the sum is exact in a double, which is much cheaper than two big integers, a shift and an or.
  if (high < 0x20_0000) return BigInt(high * 0x1_0000_0000 + low);
  return (BigInt(high) << 32n) | BigInt(low);
}

/** Writes a big-endian u32; higher bits are cut off. */
export function writeU32(buf: Uint8Array, at: number, value: number): void {
  buf[at] = value >>> 24;
  buf[at + 1] = value >>> 16;
  buf[at + 2] = value >>> 8;
  buf[at + 3] = value;
}

/** Writes a big-endian u64; higher bits are cut off. */
export function writeU64(buf: Uint8Array, at: number, value: bigint): void {
  writeU32(buf, at, Number((value >> 32n) & 0xffff_ffffn));
  writeU32(buf, at + 4, Number(value & 0xffff_ffffn));
}

/** The body length that a type demands, or -1 for a type that is unknown. */
function fixedBodyBytes(type: number): number {
  switch (type) {
    case RecordType.openSlot:
      return OPEN_SLOT_BODY_BYTES;
    case RecordType.closeSlot:
      return CLOSE_SLOT_BODY_BYTES;
    case RecordType.creditUpdate:
      return CREDIT_BODY_BYTES;
    case RecordType.heartbeat:
      return 0;
    default:
      return -1;
  }
}

function batchError(code: BatchErrorCode, offset: number, what: string): BatchError {
  return { code, offset, message: `Cannot decode the batch: ${what} (at offset ${offset})` };
}
