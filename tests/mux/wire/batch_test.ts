import { assert, assertEquals, assertFalse, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import {
  type BatchError,
  CloseReason,
  decodeRecords,
  MAX_RECORDS,
  newBatchHeader,
  readBatchHeader,
  readU64,
  RecordType,
  sequenceGap,
  writeBatchHeader,
  writeU64,
} from "../../../src/mux/wire/batch.ts";
import { hex, unhex } from "../../support/hex.ts";
import { naiveBatch, naiveDecode, type NaiveRecord } from "../../support/naive_batch.ts";

const SLOT = 0xabcdef42;

function decode(bytes: Uint8Array): { records: NaiveRecord[]; error: BatchError | null } {
  const header = newBatchHeader();
  const records: NaiveRecord[] = [];
  const counted = readBatchHeader(bytes, header) ? header.recordCount : 1;
  const error = decodeRecords(bytes, counted, {
    onRecord: (type, slot, seq, start, end) =>
      records.push({ type, slot, seq, body: bytes.slice(start, end) }),
  });
  return { records, error };
}

const u32 = fc.integer({ min: 0, max: 0xffffffff });
const goodRecord: fc.Arbitrary<NaiveRecord> = fc.oneof(
  fc.record({ type: fc.constant(0), slot: u32, seq: u32, body: fc.uint8Array({ maxLength: 40 }) }),
  fc.record({
    type: fc.constant(1),
    slot: u32,
    seq: u32,
    body: fc.uint8Array({ minLength: 16, maxLength: 16 }),
  }),
  fc.record({
    type: fc.constant(2),
    slot: u32,
    seq: u32,
    body: fc.integer({ min: 0, max: 3 }).map((r) => Uint8Array.of(r)),
  }),
  fc.record({
    type: fc.constant(3),
    slot: u32,
    seq: u32,
    body: fc.uint8Array({ minLength: 4, maxLength: 4 }),
  }),
  fc.record({ type: fc.constant(4), slot: u32, seq: u32, body: fc.constant(new Uint8Array(0)) }),
).map((record) => ({ ...record }));

Deno.test("writeBatchHeader writes the golden bytes, at any offset", () => {
  const golden = "01000002" + "0102030405060708" + "deadbeef";
  for (const offset of [0, 1, 7]) {
    const bytes = new Uint8Array(16 + offset);
    writeBatchHeader(bytes, offset, 0, 2, 0x0102030405060708n, 0xdeadbeef);
    assertEquals(hex(bytes.subarray(offset)), golden);
    assertEquals(hex(bytes.subarray(0, offset)), "00".repeat(offset));
  }
});

Deno.test("readBatchHeader returns what writeBatchHeader wrote over edge values", () => {
  const header = newBatchHeader();
  const bytes = new Uint8Array(16);
  for (const epoch of [0n, 1n, 0xffffffffn, 0x100000000n, (1n << 53n) - 1n, 1n << 53n, (1n << 64n) - 1n]) {
    for (const seq of [0, 1, 0x7fffffff, 0x80000000, 0xffffffff]) {
      for (const recordCount of [0, 1, 255, 256, MAX_RECORDS]) {
        writeBatchHeader(bytes, 0, 0xa5, recordCount, epoch, seq);
        assert(readBatchHeader(bytes, header));
        assertEquals(header, { version: 1, flags: 0xa5, recordCount, epoch, seq });
      }
    }
  }
});

Deno.test("readBatchHeader never decodes a short header and leaves its target alone", () => {
  for (let length = 0; length < 16; length++) {
    const header = newBatchHeader();
    assertFalse(readBatchHeader(new Uint8Array(length).fill(0xff), header));
    assertEquals(header, newBatchHeader());
    assertEquals(
      decodeRecords(new Uint8Array(length).fill(1), 1, { onRecord: unexpected })?.code,
      "short_header",
    );
  }
});

Deno.test("readBatchHeader carries flags and an unknown version, at which only the decoder stops", () => {
  const header = newBatchHeader();
  const bytes = naiveBatch([{ type: 4, slot: 1, seq: 1, body: new Uint8Array(0) }], {
    version: 2,
    flags: 0xff,
  });
  assert(readBatchHeader(bytes, header));
  assertEquals([header.version, header.flags, header.recordCount, header.epoch], [2, 255, 1, 1n]);
  assertEquals(decodeRecords(bytes, 1, { onRecord: unexpected })?.code, "unknown_version");
  bytes[0] = 1;
  assertEquals(decode(bytes).error, null);
});

Deno.test("writeU64 and readU64 agree with a DataView on every value", () => {
  const edge = fc.tuple(fc.integer({ min: 0, max: 64 }), fc.integer({ min: -2, max: 2 }))
    .map(([bits, off]) => BigInt.asUintN(64, (1n << BigInt(bits)) + BigInt(off)));
  fc.assert(fc.property(fc.oneof(edge, fc.bigInt({ min: 0n, max: (1n << 64n) - 1n })), (value) => {
    const bytes = new Uint8Array(8);
    writeU64(bytes, 0, value);
    assertEquals(new DataView(bytes.buffer).getBigUint64(0), value);
    assertEquals(readU64(bytes, 0), value);
  }));
});

Deno.test("decodeRecords reads the golden records", () => {
  const golden: [string, NaiveRecord][] = [
    ["00 abcdef42 00000007 00000003 aabbcc", { type: 0, slot: SLOT, seq: 7, body: unhex("aabbcc") }],
    ["01 abcdef42 00000001 00000010 1122334455667788 99aabbccddeeff00", {
      type: 1,
      slot: SLOT,
      seq: 1,
      body: unhex("112233445566778899aabbccddeeff00"),
    }],
    ["02 abcdef42 00000000 00000001 03", { type: 2, slot: SLOT, seq: 0, body: unhex("03") }],
    ["03 abcdef42 00000000 00000004 00000100", { type: 3, slot: SLOT, seq: 0, body: unhex("00000100") }],
    ["04 abcdef42 00000009 00000000", { type: 4, slot: SLOT, seq: 9, body: new Uint8Array(0) }],
  ];
  const count = golden.length.toString(16).padStart(4, "0");
  const bytes = unhex(`0100${count}${"0".repeat(24)}` + golden.map(([text]) => text).join(""));
  assertEquals(decode(bytes), { records: golden.map(([, record]) => record), error: null });
});

Deno.test("decodeRecords reads every record of every well-formed batch", () => {
  fc.assert(fc.property(fc.array(goodRecord, { maxLength: 30 }), (records) => {
    assertEquals(decode(naiveBatch(records)), { records, error: null });
  }));
});

Deno.test("decodeRecords reads a large body intact and an empty batch as nothing", () => {
  const body = Uint8Array.from({ length: 300_000 }, (_, i) => i * 7);
  assertEquals(decode(naiveBatch([{ type: 0, slot: 0, seq: 1, body }])).records[0]!.body, body);
  assertEquals(decode(naiveBatch([])), { records: [], error: null });
});

Deno.test("decodeRecords gives body ranges that lie in the whole payload", () => {
  const bytes = naiveBatch([
    { type: 0, slot: 1, seq: 1, body: unhex("aabb") },
    { type: 0, slot: 1, seq: 2, body: unhex("cc") },
  ]);
  const ranges: number[][] = [];
  decodeRecords(bytes, 2, { onRecord: (_type, _slot, _seq, start, end) => ranges.push([start, end]) });
  assertEquals(ranges, [[29, 31], [44, 45]]);
  assertEquals(hex(bytes.subarray(29, 31)) + hex(bytes.subarray(44, 45)), "aabbcc");
});

Deno.test("decodeRecords reports an error when a batch is cut anywhere, after the records that are whole", () => {
  const records: NaiveRecord[] = [
    { type: 1, slot: 5, seq: 0, body: new Uint8Array(16) },
    { type: 0, slot: 5, seq: 1, body: unhex("81a44974656da24869") },
    { type: 2, slot: 5, seq: 2, body: unhex("00") },
  ];
  const whole = naiveBatch(records);
  for (let length = 0; length < whole.length; length++) {
    const cut = whole.slice(0, length);
    const { records: seen, error } = decode(cut);
    const expected = naiveDecode(cut);
    assertEquals(error?.code, expected.error as BatchError["code"], `cut at ${length}`);
    assert(error !== null, `cut at ${length}`);
    assertEquals(seen, expected.records);
  }
});

Deno.test("decodeRecords makes of arbitrary bytes what the plain decoder makes of them", () => {
  const damaged = fc.tuple(
    fc.array(goodRecord, { maxLength: 8 }),
    fc.array(fc.tuple(fc.nat(400), fc.nat(255))),
  )
    .map(([records, edits]) => {
      const bytes = naiveBatch(records);
      for (const [at, value] of edits) bytes[at % bytes.length] = value;
      return bytes;
    });
  const arbitrary = fc.uint8Array({ maxLength: 200 }).map((bytes) => {
    if (bytes.length > 2) bytes[0] = 1;
    return bytes;
  });
  fc.assert(
    fc.property(fc.oneof(damaged, arbitrary), (bytes) => {
      const { records, error } = decode(bytes);
      assertEquals(
        { records, error: error?.code ?? null },
        naiveDecode(bytes) as { records: NaiveRecord[]; error: never },
      );
    }),
    { numRuns: 1000 },
  );
});

Deno.test("decodeRecords trusts no count and no length", () => {
  const beat: NaiveRecord = { type: 4, slot: 1, seq: 1, body: new Uint8Array(0) };
  const data = (body: Uint8Array): NaiveRecord => ({ type: 0, slot: 1, seq: 2, body });
  const tooLong = naiveBatch([beat, data(unhex("00"))]);
  new DataView(tooLong.buffer).setUint32(29 + 9, 0xffffffff);
  const cases: [string, Uint8Array, BatchError["code"], number, number][] = [
    [
      "a batch that ends on a record boundary",
      naiveBatch([beat, beat], { count: 3 }),
      "count_mismatch",
      42,
      2,
    ],
    ["a batch that undercounts", naiveBatch([beat, beat], { count: 1 }), "trailing_bytes", 29, 1],
    ["a wildly overstated count", naiveBatch([beat], { count: MAX_RECORDS }), "count_mismatch", 29, 1],
    ["an enormous body length", tooLong, "truncated", 29, 1],
    ["an unknown record type", naiveBatch([beat, { ...beat, type: 5 }]), "unknown_type", 29, 1],
    [
      "an unknown close reason",
      naiveBatch([{ ...beat, type: 2, body: unhex("04") }]),
      "unknown_reason",
      16,
      0,
    ],
    ["a short OpenSlot", naiveBatch([{ ...beat, type: 1, body: new Uint8Array(15) }]), "bad_length", 16, 0],
    ["a long OpenSlot", naiveBatch([{ ...beat, type: 1, body: new Uint8Array(17) }]), "bad_length", 16, 0],
    ["an empty CloseSlot", naiveBatch([{ ...beat, type: 2 }]), "bad_length", 16, 0],
    ["a long CloseSlot", naiveBatch([{ ...beat, type: 2, body: unhex("0000") }]), "bad_length", 16, 0],
    ["a short CreditUpdate", naiveBatch([{ ...beat, type: 3, body: unhex("000001") }]), "bad_length", 16, 0],
    ["a heartbeat with a body", naiveBatch([{ ...beat, body: unhex("00") }]), "bad_length", 16, 0],
  ];
  for (const [name, bytes, code, offset, seen] of cases) {
    const { records, error } = decode(bytes);
    assertEquals([error?.code, error?.offset, records.length], [code, offset, seen], name);
    assertStringIncludes(error!.message, `offset ${offset}`, name);
  }
});

Deno.test("decodeRecords visits nothing after the first error", () => {
  const beat: NaiveRecord = { type: 4, slot: 1, seq: 1, body: new Uint8Array(0) };
  const { records, error } = decode(naiveBatch([beat, { ...beat, type: 9 }, beat, beat]));
  assertEquals([records.length, error?.code], [1, "unknown_type"]);
});

Deno.test("RecordType and CloseReason match the wire", () => {
  assertEquals({ ...RecordType }, { data: 0, openSlot: 1, closeSlot: 2, creditUpdate: 3, heartbeat: 4 });
  assertEquals({ ...CloseReason }, { terminalSent: 0, peerGone: 1, unknownSlot: 2, protocolError: 3 });
});

Deno.test("sequenceGap counts skipped batches through the wrap", () => {
  const cases: [number, number, number][] = [
    [0, 1, 0],
    [0, 2, 1],
    [0xffffffff, 0, 0],
    [0xfffffffe, 1, 2],
    [5, 5, 0xffffffff],
    [5, 4, 0xfffffffe],
  ];
  for (const [last, received, gap] of cases) {
    assertEquals(sequenceGap(last, received), gap, `${last} ${received}`);
  }
});

function unexpected(): void {
  throw new Error("A record was visited that must not be");
}
