/** Cost and size of deadlines, against one timer for each. */
import { systemClock } from "../src/clock.ts";
import { type DeadlineEntry, Deadlines } from "../src/mux/deadlines.ts";
import { benchPerUnit, printAtEnd } from "./per_unit.ts";

const STREAMS = 1_000;
const HELD = 200_000;

const deadlines = new Deadlines(systemClock);
const lane = deadlines.lane<number>(120_000, () => {});
const resident = lane.arm(-1);
const entries: DeadlineEntry<number>[] = new Array(STREAMS);

benchPerUnit({
  name: "deadline lane",
  group: "arm and cancel",
  units: STREAMS,
  unit: "stream",
  reference: "reference: an anchor's creation costs 708 ns with its queue and 1,217 ns with a task for each",
  baseline: true,
  run: () => {
    for (let n = 0; n < STREAMS; n++) entries[n] = lane.arm(n);
    for (let n = 0; n < STREAMS; n++) lane.cancel(entries[n]!);
  },
});

const timers: unknown[] = new Array(STREAMS);
benchPerUnit({
  name: "a timer each",
  group: "arm and cancel",
  units: STREAMS,
  unit: "stream",
  reference: "oracle",
  run: () => {
    for (let n = 0; n < STREAMS; n++) timers[n] = systemClock.setTimer(() => {}, 120_000);
    for (let n = 0; n < STREAMS; n++) systemClock.clearTimer(timers[n]);
  },
});

benchPerUnit({
  name: "deadline lane",
  group: "re-arm",
  units: STREAMS,
  unit: "re-arm",
  reference: "the reference gives no figure",
  run: () => {
    for (let n = 0; n < STREAMS; n++) lane.rearm(resident);
  },
});

{
  const before = Deno.memoryUsage();
  const held = Array.from({ length: HELD }, (_, n) => lane.arm(n));
  const after = Deno.memoryUsage();
  const mib = ((after.heapUsed - before.heapUsed) / 1_048_576).toFixed(1);
  printAtEnd(
    `${HELD} pending deadlines: ${mib} MiB of heap, ${deadlines.timersHeld} timer ` +
      "(reference: 168.5 MiB RSS and one task, for the anchors as well)",
  );
  for (const entry of held) lane.cancel(entry);
}
