/** Cost of encoding and decoding mux records, in ns per record, against a plain DataView codec. */
import {
  BATCH_HEADER_BYTES,
  decodeRecords,
  newBatchHeader,
  readBatchHeader,
  RecordType,
  type RecordVisitor,
  writeBatchHeader,
} from "../src/mux/wire/batch.ts";
import { RecordBuffer } from "../src/mux/wire/record_buffer.ts";
import { classifyFrame, FrameKind, newItemView, readItem } from "../src/mux/wire/stream_frame.ts";
import { naiveBatch, naiveDecode, type NaiveRecord } from "../tests/support/naive_batch.ts";
import { benchPerUnit } from "./per_unit.ts";

const PAYLOAD_BYTES = 200;
const payload = Uint8Array.from({ length: PAYLOAD_BYTES }, (_, i) => i);
const item = new Uint8Array([0x81, 0xa4, 0x49, 0x74, 0x65, 0x6d, 0xc4, PAYLOAD_BYTES, ...payload]);

for (const records of [1, 32, 1_000]) {
  const group = `batch of ${records}`;
  // One call does about 1,000 records, so that what surrounds the call does not count.
  const rounds = Math.ceil(1_000 / records);
  const units = rounds * records;
  const naive: NaiveRecord[] = Array.from({ length: records }, (_, i) => ({
    type: RecordType.data,
    slot: i << 8,
    seq: i,
    body: item,
  }));
  const batch = naiveBatch(naive);

  const buffer = new RecordBuffer(records * 256);
  const header = new Uint8Array(BATCH_HEADER_BYTES);
  benchPerUnit({
    name: `encode, ${PAYLOAD_BYTES} B items`,
    group: `encode, ${group}`,
    units,
    unit: "record",
    reference: "the reference gives no figure for its encoder",
    baseline: true,
    run: () => {
      for (let round = 0; round < rounds; round++) {
        buffer.reset();
        for (let i = 0; i < records; i++) buffer.appendItemData(i << 8, i, payload, 0, payload.length);
        writeBatchHeader(header, 0, 0, buffer.count, 1n, round);
      }
    },
  });
  benchPerUnit({
    name: "encode, plain",
    group: `encode, ${group}`,
    units,
    unit: "record",
    reference: "oracle",
    run: () => {
      for (let round = 0; round < rounds; round++) naiveBatch(naive);
    },
  });

  const view = newItemView();
  const read = newBatchHeader();
  let bytes = 0;
  const visitor: RecordVisitor = {
    onRecord: (type, _slot, _seq, start, end) => {
      if (type !== RecordType.data || classifyFrame(batch, start, end) !== FrameKind.item) return;
      if (readItem(batch, start, end, view) === "data") bytes += view.end - view.start;
    },
  };
  benchPerUnit({
    name: `decode to the payload's range, ${PAYLOAD_BYTES} B items`,
    group: `decode, ${group}`,
    units,
    unit: "record",
    reference: "reference: 35 to 55 ns for its copy of each record alone, estimated",
    baseline: true,
    run: () => {
      for (let round = 0; round < rounds; round++) {
        readBatchHeader(batch, read);
        if (decodeRecords(batch, read.recordCount, visitor) !== null) {
          throw new Error("Cannot decode the batch");
        }
      }
      if (bytes === 0) throw new Error("Cannot find the payload");
    },
  });
  benchPerUnit({
    name: "decode, plain",
    group: `decode, ${group}`,
    units,
    unit: "record",
    reference: "oracle",
    run: () => {
      for (let round = 0; round < rounds; round++) naiveDecode(batch);
    },
  });
}
