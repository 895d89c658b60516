/** Whole streams over two muxes joined directly: open, four items, terminal, close; and slots without items. */
import { benchPerUnit } from "./per_unit.ts";
import { print } from "./support/print.ts";
import { CountingConsumer, JoinedMuxes } from "./support/joined_muxes.ts";

const STREAMS = 500;
const payload = Uint8Array.from({ length: 200 }, (_, i) => i);
let streams = 0;
let ms = 0;

for (const [name, items] of [["open, 4 items, finalize", 4], ["open, finalize", 0]] as const) {
  const muxes = new JoinedMuxes();
  const consumer = new CountingConsumer();
  benchPerUnit({
    name,
    group: "stream lifecycle",
    units: STREAMS,
    unit: "stream, both sides",
    reference: items === 4
      ? "reference: 137,856 streams/s on 20 cores, so 7,254 ns between two streams"
      : "the reference gives no figure",
    baseline: items === 4,
    run: () => {
      const started = performance.now();
      for (let n = 0; n < STREAMS; n++) {
        const anchor = muxes.front.register(consumer, "worker");
        const sender = muxes.worker.open("front", anchor.ticket);
        for (let i = 0; i < items; i++) sender.sendData(payload);
        sender.finalize();
        if (n % 50 === 49) muxes.settle();
      }
      muxes.clock.advance(3);
      muxes.settle();
      if (items !== 4) return;
      ms += performance.now() - started;
      streams += STREAMS;
    },
  });
  addEventListener("unload", () => {
    const { liveAnchors, liveEgressSlots, liveIngressSlots } = muxes.front.stats;
    if (liveAnchors + liveEgressSlots + liveIngressSlots > 0) {
      throw new Error("Cannot trust this: streams are left");
    }
  });
}

addEventListener("unload", () => {
  if (streams === 0) return;
  const rate = Math.round(streams / ms * 1_000);
  print(`stream lifecycle: ${rate} streams/s on one thread, both sides (reference: 137,856 on 20 cores)`);
});
