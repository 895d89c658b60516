/** What a batcher sends first once a lane that was parked takes batches again. */
import { assert, assertEquals } from "@std/assert";
import { id, record, SoloMux } from "../support/solo_mux.ts";

/** A parked lane with more data waiting than its batches hold, and a stream that only beats. */
function congested() {
  const solo = new SoloMux({ maxBatchBytes: 200 });
  const idle = solo.open({ heartbeatIntervalMs: 1_000 });
  const busy = Array.from({ length: 20 }, () => solo.open({ initialCredit: 1_000 }));
  const { anchor } = solo.register();
  solo.receive([record.open(id(0), anchor)]);
  solo.take();
  solo.link.holding = true;
  for (let i = 0; i < 10; i++) for (const sender of busy) sender.sendData(new Uint8Array(40));
  solo.take();
  return { solo, idle, busy };
}

Deno.test("Batcher sends grants at the next admission, however much data waits for room", () => {
  const { solo } = congested();
  for (let n = 1; n <= 10; n++) {
    solo.receive([record.item(id(0), n, "x")]);
    solo.clock.advance(5);
    solo.link.admit();
    assertEquals(solo.link.sent.splice(0).flatMap(({ records }) => records).slice(0, 1), ["credit 0.0 +1"]);
    solo.link.admit();
    solo.link.sent.length = 0;
  }
});

Deno.test("Batcher sends a beat that found no room at the next admission", () => {
  const { solo, idle } = congested();
  solo.clock.advance(1_000);
  assertEquals(solo.link.sent.length, 0);
  solo.link.admit();
  assertEquals(solo.link.sent[0]!.records.filter((line) => line.startsWith("beat")), ["beat 0.0 #1"]);
  assertEquals(idle.ended, null);
});

Deno.test("Batcher serves streams that wait for room in turn, and all of them", () => {
  const { solo, busy } = congested();
  const order: string[] = [];
  for (let admissions = 0; admissions < 1_000 && solo.link.pending.length > 0; admissions++) {
    solo.link.admit();
    for (const { records } of solo.link.sent.splice(0)) {
      order.push(...records.filter((line) => line.startsWith("data")).map((line) => line.split(" ")[1]!));
    }
  }
  assertEquals(busy.map(({ withheldRecords }) => withheldRecords), busy.map(() => 0));
  assertEquals([solo.mux.stats.withheldRecords, solo.mux.stats.stagedRecords], [0, 0]);
  // Nobody is served twice as often as another while both wait.
  const half = order.slice(0, order.length / 2);
  const counts = busy.map((_, i) => half.filter((name) => name === `${i + 1}.0`).length);
  assert(Math.max(...counts) - Math.min(...counts) <= 10, counts.join());
});
