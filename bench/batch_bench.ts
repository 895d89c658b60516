/**
 * Cost of a record in the mux: from `sendData` to a written batch, and from a received batch to `onData`. Everything
 * is counted but the transport: credit, sequence, flush, dirty set.
 */
import type { EgressStream } from "../src/mux/egress_stream.ts";
import type { MuxAnchor } from "../src/mux/anchor.ts";
import { naiveBatch } from "../tests/support/naive_batch.ts";
import { VirtualClock } from "../tests/support/virtual_clock.ts";
import { benchPerUnit } from "./per_unit.ts";
import { benchMux, CountingConsumer, directLink } from "./support/joined_muxes.ts";

const PAYLOAD_BYTES = 200;
const WINDOW = 65_536;
const payload = Uint8Array.from({ length: PAYLOAD_BYTES }, (_, i) => i);
const item = new Uint8Array([0x81, 0xa4, 0x49, 0x74, 0x65, 0x6d, 0xc4, PAYLOAD_BYTES, ...payload]);
const NO_FIGURE =
  "reference: 5,330 ns of frontend CPU a record with its transport and consumer, 160 B, 12 peers";

for (const records of [1, 32, 1_000]) {
  const streams = Math.min(records, 32);
  const perStream = Math.floor(records / streams);
  const rounds = Math.ceil(1_000 / records);
  const units = rounds * streams * perStream;

  {
    const clock = new VirtualClock();
    const mux = benchMux(clock, directLink(() => {}), "worker", { maxBatchBytes: 65_536 });
    const other = benchMux(clock, directLink(() => {}), "front", { initialCredit: WINDOW });
    const senders = Array.from(
      { length: streams },
      () => mux.open("front", other.register(new CountingConsumer(), "worker").ticket) as EgressStream,
    );
    clock.runDeferred();
    benchPerUnit({
      name: `sendData to batch, ${streams} streams`,
      group: `batch of ${records} records`,
      units,
      unit: "record",
      reference: "the reference gives no figure for its sender",
      run: () => {
        for (let round = 0; round < rounds; round++) {
          for (let n = 0; n < perStream; n++) {
            for (let i = 0; i < streams; i++) senders[i]!.sendData(payload);
          }
          clock.runDeferred();
        }
        for (let i = 0; i < streams; i++) senders[i]!.grant(units / streams);
      },
    });
  }

  {
    const clock = new VirtualClock();
    const mux = benchMux(clock, directLink(() => {}), "front", { initialCredit: WINDOW });
    const consumer = new CountingConsumer();
    const anchors: MuxAnchor[] = [];
    for (let i = 0; i < streams; i++) {
      const anchor = mux.register(consumer, "worker");
      const body = new Uint8Array(16);
      const view = new DataView(body.buffer);
      view.setBigUint64(0, BigInt(anchor.localId));
      view.setBigUint64(8, anchor.sessionId);
      mux.handleBatch("worker", 1, naiveBatch([{ type: 1, slot: i << 8, seq: 0, body }]));
      anchors.push(anchor);
    }
    const data = Array.from({ length: streams * perStream }, (_, n) => ({
      type: 0,
      slot: (n % streams) << 8,
      seq: 1 + Math.floor(n / streams),
      body: item,
    }));
    const batch = naiveBatch(data);
    benchPerUnit({
      name: `batch to onData, ${streams} streams`,
      group: `batch of ${records} records`,
      units,
      unit: "record",
      reference: NO_FIGURE,
      baseline: true,
      run: () => {
        for (let round = 0; round < rounds; round++) {
          // The same bytes again: the sequence is put back instead of written into every record.
          for (let i = 0; i < streams; i++) anchors[i]!.slot!.next = 1;
          mux.handleBatch("worker", 1, batch);
          mux.handleReadEnd();
        }
        clock.advance(3); // the credit of all rounds goes back
      },
    });
  }
}
