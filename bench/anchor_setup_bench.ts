/** What a stream's anchor costs: held unopened by the hundred thousand, created, and created and ended. */
import { VirtualClock } from "../tests/support/virtual_clock.ts";
import { benchPerUnit, printAtEnd } from "./per_unit.ts";
import { print } from "./support/print.ts";
import { benchMux, CountingConsumer, directLink } from "./support/joined_muxes.ts";

const HELD = 200_000;
const ROUND = 1_000;
const consumer = new CountingConsumer();

{
  const clock = new VirtualClock();
  const mux = benchMux(clock, directLink(() => {}), "front");
  const before = Deno.memoryUsage();
  const start = performance.now();
  for (let n = 0; n < HELD; n++) mux.register(consumer, "worker");
  const ns = (performance.now() - start) * 1e6 / HELD;
  const after = Deno.memoryUsage();
  const heap = ((after.heapUsed - before.heapUsed) / 1_048_576).toFixed(1);
  const rss = ((after.rss - before.rss) / 1_048_576).toFixed(1);
  printAtEnd(`| measure | here | reference, task per anchor | reference, deadline queue |`);
  printAtEnd(`|---|---|---|---|`);
  printAtEnd(`| timers (tasks) held by ${HELD} unattached anchors | ${mux.timers.timers} | 200,000 | 1 |`);
  printAtEnd(`| memory added by them, heap / RSS | ${heap} / ${rss} MiB | 276.6 MiB | 168.5 MiB |`);
  printAtEnd(`| creation of an unattached anchor | ${ns.toFixed(0)} ns | 1,217 ns | 708 ns |`);
  mux.close();
}

const samples: number[] = [];
{
  const mux = benchMux(new VirtualClock(), directLink(() => {}), "front");
  benchPerUnit({
    name: "created and ended",
    group: "anchor",
    units: ROUND,
    unit: "lifecycle",
    reference: "reference: 0.87 million/s on 2 threads, so 1,149 ns; 7,500 ns of CPU on 8",
    run: () => {
      const start = performance.now();
      for (let n = 0; n < ROUND; n++) mux.register(consumer, null).cancel("done");
      samples.push((performance.now() - start) * 1e6 / ROUND);
    },
  });
}

addEventListener("unload", () => {
  if (samples.length === 0) return;
  samples.sort((a, b) => a - b);
  const mean = samples.reduce((sum, ns) => sum + ns, 0) / samples.length;
  const at = (share: number) => (samples[Math.floor((samples.length - 1) * share)]! / 1_000).toFixed(2);
  print(`| lifecycles per second, 1 thread | ${(1_000 / mean).toFixed(2)} M | 0.74 M on 2 | 0.87 M on 2 |`);
  print(
    `| lifecycle p50 / p99 / p99.9, means of ${ROUND} | ${at(0.5)} / ${at(0.99)} / ${at(0.999)} µs | ` +
      "4.37 / 12.05 / 22.62 µs | 3.97 / 10.42 / 18.14 µs |",
  );
});
