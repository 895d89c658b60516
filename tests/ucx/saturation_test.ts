/**
 * The instability of the reference's UCX transport: 5,760 streams on one worker, a frontend so slow that what is under
 * way is several watchdog windows long. There, beats lay behind the data of a queue without bounds, the watchdog killed
 * 1,722 streams of a healthy worker, and batches collapsed to 7 to 8.7 records, since admission never blocked.
 *
 * Frontend and worker are two processes.
 */
import { assert, assertEquals } from "@std/assert";
import { saturate, type SaturationArm, type SaturationReport } from "../support/saturation.ts";
import { ucxTest, withEnv } from "./support.ts";

const HEARTBEAT_MS = 200;
const WATCHDOG_MS = 3 * HEARTBEAT_MS;
const STREAMS = 5_760;
const RECORDS = 8;

const ARM: Omit<SaturationArm, "transport"> = {
  lanes: 1,
  streams: STREAMS,
  records: RECORDS,
  // More in all than sockets and queues between the two can hold, so that the sender is stopped too.
  recordBytes: 512,
  recordsPerTurn: 8,
  burnMs: 0.1,
  mux: { lanes: 1, heartbeatIntervalMs: HEARTBEAT_MS, missedBeats: 3 },
};

/** What TCP makes of it; run once, by whichever test comes first. */
let tcp: Promise<SaturationReport> | null = null;

function saturateTcp(): Promise<SaturationReport> {
  return tcp ??= saturate({ ...ARM, transport: "tcp" });
}

function assertUnharmed(report: SaturationReport): void {
  const { worker } = report;
  // Else nothing has been shown.
  assert(report.longestDelayMs > 3 * WATCHDOG_MS, `the backlog was ${report.longestDelayMs} ms`);
  assert(report.longestSilenceMs > WATCHDOG_MS, `the longest silence was ${report.longestSilenceMs} ms`);
  assert(worker.backpressure > 0, "the sender was never stopped");
  assertEquals([report.watchdogFirings, report.ends], [0, { finalized: STREAMS }]);
  assertEquals([report.received, report.wrong], [STREAMS * RECORDS, 0]);
  assertEquals([worker.ends, worker.epochDeaths, worker.overflows], [{}, 0, 0]);
}

Deno.test("MuxPlane loses none of 5,760 streams to a frontend that is seconds behind (tcp)", async () => {
  assertUnharmed(await saturateTcp());
});

for (const tls of ["tcp", "posix,sysv"]) {
  ucxTest(
    `MuxPlane over UCX loses none of 5,760 streams to a frontend that is seconds behind, and fills its batches (${tls})`,
    async () => {
      const env = { UCX_TLS: tls };
      const beside = await saturateTcp();
      const report = await withEnv(env, () => saturate({ ...ARM, transport: "ucx" }, env));
      assertUnharmed(report);
      // Fuller is no fault: shared memory holds less under way than sockets do, so its sender is stopped more often.
      assert(
        report.dataPerBatch >= 0.7 * beside.dataPerBatch,
        `${report.dataPerBatch.toFixed(1)} records a batch, ${beside.dataPerBatch.toFixed(1)} over TCP`,
      );
    },
  );
}
