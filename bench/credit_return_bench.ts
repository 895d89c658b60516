/** Cost of giving credit back: a drain, its mark, and its grant in a reply; by dirty slots, whatever the live ones. */
import { naiveBatch } from "../tests/support/naive_batch.ts";
import { VirtualClock } from "../tests/support/virtual_clock.ts";
import { benchPerUnit } from "./per_unit.ts";
import { benchMux, CountingConsumer, directLink } from "./support/joined_muxes.ts";

const DIRTY = 11; // the reference: about 11 slots touched per batch, 1,000 live
const VISITS = 100;
const item = new Uint8Array([0x81, 0xa4, 0x49, 0x74, 0x65, 0x6d, 0xc4, 1, 7]);

for (const live of [11, 1_000, 10_000]) {
  const clock = new VirtualClock();
  const mux = benchMux(clock, directLink(() => {}), "front", { initialCredit: 32 });
  const consumer = new CountingConsumer();
  const anchors = Array.from({ length: live }, (_, i) => {
    const anchor = mux.register(consumer, "worker");
    const body = new Uint8Array(16);
    const view = new DataView(body.buffer);
    view.setBigUint64(0, BigInt(anchor.localId));
    view.setBigUint64(8, anchor.sessionId);
    mux.handleBatch("worker", 1, naiveBatch([{ type: 1, slot: i << 8, seq: 0, body }]));
    return anchor;
  });
  const stride = Math.floor(live / DIRTY);
  const dirty = Array.from({ length: DIRTY }, (_, i) => i * stride);
  const batch = naiveBatch(dirty.map((slot) => ({ type: 0, slot: slot << 8, seq: 1, body: item })));
  benchPerUnit({
    name: `${live} live slots`,
    group: `one record and its grant, ${DIRTY} slots a batch`,
    units: VISITS * DIRTY,
    unit: "record and grant",
    reference: live === 11
      ? "reference: 94,000 ns of waiting a record from linger and floor at a window of 32; no CPU figure"
      : "must not grow with live slots",
    baseline: live === 11,
    run: () => {
      for (let visit = 0; visit < VISITS; visit++) {
        for (const slot of dirty) anchors[slot]!.slot!.next = 1;
        mux.handleBatch("worker", 1, batch);
        clock.advance(3);
      }
    },
  });
}
