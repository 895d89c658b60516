/**
 * Thousands of short connections through each egress, all in one process, so that descriptor numbers are given out again
 * at once, to clients and to the frontend alike: a send on a number that is no longer ours would show.
 *
 * `EGRESS_CHURN_SECONDS` (per egress, default 3) makes it longer, `EGRESS_CHURN_SEED` another one.
 */
import { assert, assertEquals } from "@std/assert";
import { chooseEgress } from "../../src/frontend/egress/choose.ts";
import { SendRing } from "../../src/frontend/egress/send_ring.ts";
import { FrontendHarness } from "../support/frontend_harness.ts";
import { type Manner, MANNERS, runClient, SecretWorker } from "../support/churn.ts";
import { Rng } from "../sim/rng.ts";
import { until } from "../support/until.ts";

const SECONDS = Number(Deno.env.get("EGRESS_CHURN_SECONDS") ?? 3);
const SEED = Number(Deno.env.get("EGRESS_CHURN_SEED") ?? 20_260_101);
const CLIENTS = 48;

/** Descriptors of this process. */
function openDescriptors(): number {
  return [...Deno.readDirSync("/proc/self/fd")].length;
}

for (const egress of ["ring", "ffi", "socket", "portable"] as const) {
  const name = `Egress ${egress} brings no byte to a connection that it was not meant for`;
  Deno.test({ name, ignore: egress === "ring" && SendRing.open() === null }, async () => {
    await chooseEgress(egress); // what is loaded once stays open
    const before = openDescriptors();
    const harness = await new FrontendHarness({ egress, maxAttempts: 1 }).start();
    harness.join();
    const worker = new SecretWorker(harness, 3);
    const counts = Object.fromEntries(MANNERS.map((manner) => [manner, 0])) as Record<Manner, number>;
    let whole = 0;
    try {
      const end = performance.now() + SECONDS * 1_000;
      await Promise.all(Array.from({ length: CLIENTS }, async (_, index) => {
        const rng = new Rng(SEED + index);
        while (performance.now() < end) {
          const manner = rng.pick(MANNERS);
          const seen = await runClient(harness.port, manner, rng);
          whole += seen;
          counts[manner]++;
        }
      }));
      await until(() => harness.node.openRequests === 0, "every request is over");
    } finally {
      worker.close();
      await harness.close();
    }
    for (const manner of MANNERS) assert(counts[manner] > 0, `${manner} was tried`);
    const { close, keep_alive, pipeline } = counts;
    assert(whole >= close + 3 * (keep_alive + pipeline), `${whole} responses were seen whole`);
    const outcomes = harness.outcomes();
    assertEquals(Object.keys(outcomes).toSorted(), ["cancelled", "ok"]);
    await until(() => openDescriptors() <= before, `${before} descriptors as before`);
  });
}
