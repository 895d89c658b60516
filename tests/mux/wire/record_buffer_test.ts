import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { CloseReason, decodeRecords, writeBatchHeader } from "../../../src/mux/wire/batch.ts";
import {
  CLOSE_SLOT_BYTES,
  CREDIT_BYTES,
  encodedDataBytes,
  encodedItemBytes,
  HEARTBEAT_BYTES,
  OPEN_SLOT_BYTES,
  RecordBuffer,
} from "../../../src/mux/wire/record_buffer.ts";
import { FINALIZED, type ItemKind, newItemView, readItem } from "../../../src/mux/wire/stream_frame.ts";
import { hex, unhex } from "../../support/hex.ts";
import { naiveBatch, naiveDecode } from "../../support/naive_batch.ts";

const SLOT = 0xabcdef42;

function content(buffer: RecordBuffer): Uint8Array {
  return buffer.bytes.subarray(0, buffer.length);
}

Deno.test("RecordBuffer encodes every record type to its golden bytes", () => {
  const cases: [string, number, (buffer: RecordBuffer) => void, string][] = [
    [
      "data",
      16,
      (b) => b.appendData(SLOT, 7, unhex("00aabbcc00"), 1, 4),
      "00 abcdef42 00000007 00000003 aabbcc",
    ],
    [
      "open",
      OPEN_SLOT_BYTES,
      (b) => b.appendOpenSlot(SLOT, 0x1122334455667788n, 0x99aabbccddeeff00n, 1),
      "01 abcdef42 00000001 00000010 1122334455667788 99aabbccddeeff00",
    ],
    ["close 0", CLOSE_SLOT_BYTES, (b) => b.appendClose(SLOT, 0, 0), "02 abcdef42 00000000 00000001 00"],
    ["close 1", CLOSE_SLOT_BYTES, (b) => b.appendClose(SLOT, 0, 1), "02 abcdef42 00000000 00000001 01"],
    ["close 2", CLOSE_SLOT_BYTES, (b) => b.appendClose(SLOT, 0, 2), "02 abcdef42 00000000 00000001 02"],
    ["close 3", CLOSE_SLOT_BYTES, (b) => b.appendClose(SLOT, 0, 3), "02 abcdef42 00000000 00000001 03"],
    ["credit", CREDIT_BYTES, (b) => b.appendCredit(SLOT, 256), "03 abcdef42 00000000 00000004 00000100"],
    ["beat", HEARTBEAT_BYTES, (b) => b.appendHeartbeat(SLOT, 9), "04 abcdef42 00000009 00000000"],
  ];
  for (const [name, size, append, golden] of cases) {
    const buffer = new RecordBuffer(0);
    append(buffer);
    assertEquals(hex(content(buffer)), golden.replaceAll(" ", ""), name);
    assertEquals([buffer.length, buffer.count], [size, 1], name);
  }
});

Deno.test("RecordBuffer encodes the golden stream of one item", () => {
  const open = new RecordBuffer(64);
  open.appendOpenSlot(0, 1n, 1n);
  assertEquals(hex(content(open)), "0100000000000000000000001000000000000000010000000000000001");
  const rest = new RecordBuffer(64);
  rest.appendItemText(0, 1, new TextEncoder().encode("Hi"));
  rest.appendData(0, 2, FINALIZED, 0, FINALIZED.length);
  rest.appendClose(0, 3, CloseReason.terminalSent);
  assertEquals(
    hex(content(rest)),
    "000000000000000001000000" + "0981a44974656da24869" +
      "0000000000000000020000000aa946696e616c697a6564" +
      "020000000000000003000000" + "0100",
  );
});

Deno.test("RecordBuffer wraps item data and text in the shortest header, across every size class", () => {
  const sizes = [0, 1, 31, 32, 33, 47, 48, 49, 200, 255, 256, 257, 65_535, 65_536, 70_000];
  const view = newItemView();
  for (const kind of ["data", "text"] as ItemKind[]) {
    for (const n of sizes) {
      const payload = Uint8Array.from({ length: n }, (_, i) => 32 + (i % 90));
      const buffer = new RecordBuffer(16);
      if (kind === "data") buffer.appendItemData(SLOT, 3, payload, 0, n);
      else buffer.appendItemText(SLOT, 3, payload);
      assertEquals(buffer.length, encodedItemBytes(kind, n), `${kind} ${n}`);
      const [record] = naiveDecode(batchOf(buffer)).records;
      assertEquals(hex(record!.body.subarray(0, 6)), "81a44974656d");
      assertEquals(readItem(record!.body, 0, record!.body.length, view), kind, `${kind} ${n}`);
      assertEquals(record!.body.subarray(view.start, view.end), payload);
    }
  }
});

Deno.test("RecordBuffer takes a range of its source and leaves the rest out", () => {
  const source = Uint8Array.from({ length: 300 }, (_, i) => i);
  for (
    const [start, end] of [[0, 300], [0, 40], [0, 100], [10, 50], [10, 260], [299, 300], [150, 150]] as const
  ) {
    const buffer = new RecordBuffer(0);
    buffer.appendItemData(1, 1, source, start, end);
    assertEquals(buffer.bytes.slice(buffer.length - (end - start), buffer.length), source.slice(start, end));
  }
});

Deno.test("RecordBuffer starts a clean batch when it is reused, and keeps its storage", () => {
  const buffer = new RecordBuffer(0);
  buffer.appendData(1, 1, new Uint8Array(500).fill(0xee), 0, 500);
  const storage = buffer.bytes;
  buffer.reset();
  assertEquals([buffer.length, buffer.count], [0, 0]);
  buffer.appendHeartbeat(2, 3);
  assertEquals(hex(content(buffer)), "04000000020000000300000000");
  assertEquals(buffer.bytes, storage);
  buffer.reserve(10);
  assertEquals(buffer.bytes.length, storage.length);
  buffer.reserve(100_000);
  assertEquals(buffer.bytes.length >= 100_013, true);
  assertEquals(hex(content(buffer)), "04000000020000000300000000");
});

Deno.test("RecordBuffer encodes any run of records as the plain encoder does", () => {
  const u32 = fc.integer({ min: 0, max: 0xffffffff });
  const u64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });
  const step = fc.oneof(
    fc.tuple(fc.constant(0), u32, u32, fc.uint8Array({ maxLength: 400 })),
    fc.tuple(fc.constant(1), u32, u64, u64),
    fc.tuple(fc.constant(2), u32, u32, fc.integer({ min: 0, max: 3 })),
    fc.tuple(fc.constant(3), u32, u32),
    fc.tuple(fc.constant(4), u32, u32),
  );
  fc.assert(fc.property(fc.array(step as fc.Arbitrary<readonly unknown[]>, { maxLength: 40 }), (steps) => {
    const buffer = new RecordBuffer(0);
    const records = steps.map(([type, slot, a, b]) => {
      const body = new Uint8Array(type === 1 ? 16 : type === 2 ? 1 : type === 3 ? 4 : 0);
      const view = new DataView(body.buffer);
      const id = slot as number;
      switch (type) {
        case 0: {
          const bytes = b as Uint8Array;
          buffer.appendData(id, a as number, bytes, 0, bytes.length);
          return { type: 0, slot: id, seq: a as number, body: bytes };
        }
        case 1:
          buffer.appendOpenSlot(id, a as bigint, b as bigint);
          view.setBigUint64(0, a as bigint);
          view.setBigUint64(8, b as bigint);
          return { type: 1, slot: id, seq: 0, body };
        case 2:
          buffer.appendClose(id, a as number, b as CloseReason);
          view.setUint8(0, b as number);
          return { type: 2, slot: id, seq: a as number, body };
        case 3:
          buffer.appendCredit(id, a as number);
          view.setUint32(0, a as number);
          return { type: 3, slot: id, seq: 0, body };
        default:
          buffer.appendHeartbeat(id, a as number);
          return { type: 4, slot: id, seq: a as number, body };
      }
    });
    assertEquals(hex(batchOf(buffer)), hex(naiveBatch(records)));
    assertEquals(buffer.count, steps.length);
    let visited = 0;
    assertEquals(decodeRecords(batchOf(buffer), buffer.count, { onRecord: () => visited++ }), null);
    assertEquals(visited, steps.length);
  }));
});

Deno.test("encodedDataBytes tracks the record arithmetic", () => {
  for (const n of [0, 1, 200, 61_440]) {
    const buffer = new RecordBuffer(0);
    buffer.appendData(1, 1, new Uint8Array(n), 0, n);
    assertEquals(buffer.length, encodedDataBytes(n));
  }
});

function batchOf(buffer: RecordBuffer): Uint8Array {
  const bytes = new Uint8Array(16 + buffer.length);
  writeBatchHeader(bytes, 0, 0, buffer.count, 1n, 0);
  bytes.set(content(buffer), 16);
  return bytes;
}
