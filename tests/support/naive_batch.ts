/** The plain way to write and read a batch: the oracle of the codec's tests. */

/** One record as the tests see it. */
export interface NaiveRecord {
  type: number;
  slot: number;
  seq: number;
  body: Uint8Array;
}

/** A whole batch. `count` may lie. */
export function naiveBatch(
  records: readonly NaiveRecord[],
  { epoch = 1n, seq = 0, flags = 0, version = 1, count = records.length } = {},
): Uint8Array<ArrayBuffer> {
  const size = records.reduce((sum, record) => sum + 13 + record.body.length, 16);
  const bytes = new Uint8Array(size);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, version);
  view.setUint8(1, flags);
  view.setUint16(2, count);
  view.setBigUint64(4, epoch);
  view.setUint32(12, seq);
  let at = 16;
  for (const record of records) {
    view.setUint8(at, record.type);
    view.setUint32(at + 1, record.slot);
    view.setUint32(at + 5, record.seq);
    view.setUint32(at + 9, record.body.length);
    bytes.set(record.body, at + 13);
    at += 13 + record.body.length;
  }
  return bytes;
}

/** What a decoder has to make of any bytes: the records before the first error, and that error's code. */
export function naiveDecode(bytes: Uint8Array): { records: NaiveRecord[]; error: string | null } {
  const records: NaiveRecord[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (bytes.length < 16) return { records, error: "short_header" };
  if (view.getUint8(0) !== 1) return { records, error: "unknown_version" };
  const fixed: Record<number, number> = { 1: 16, 2: 1, 3: 4, 4: 0 };
  let at = 16;
  for (let left = view.getUint16(2); left > 0; left--) {
    if (at === bytes.length) return { records, error: "count_mismatch" };
    if (at + 13 > bytes.length) return { records, error: "truncated" };
    const type = view.getUint8(at);
    const length = view.getUint32(at + 9);
    if (type > 4) return { records, error: "unknown_type" };
    if (type !== 0 && fixed[type] !== length) return { records, error: "bad_length" };
    if (at + 13 + length > bytes.length) return { records, error: "truncated" };
    const body = bytes.slice(at + 13, at + 13 + length);
    if (type === 2 && body[0]! > 3) return { records, error: "unknown_reason" };
    records.push({ type, slot: view.getUint32(at + 1), seq: view.getUint32(at + 5), body });
    at += 13 + length;
  }
  return { records, error: at === bytes.length ? null : "trailing_bytes" };
}
