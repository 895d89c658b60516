/**
 * A worker whose frontend cannot keep up, as a process of its own: takes streams by request, and at "go" sends all their
 * records without minding back-pressure, as an engine does that is already running. Started by `saturation.ts`.
 */
import { systemClock } from "../../src/clock.ts";
import { Messenger } from "../../src/messenger/messenger.ts";
import { peerInfoFromJson, peerInfoToJson } from "../../src/messenger/peer_info.ts";
import { RecordType } from "../../src/mux/wire/batch.ts";
import { MuxPlane } from "../../src/plane/mux_plane.ts";
import { decodeRequestMessage, GENERATE_HANDLER } from "../../src/plane/request_message.ts";
import type { Sender } from "../../src/stream.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import {
  GO_HANDLER,
  REPORT_HANDLER,
  type SaturationArm,
  type WorkerReport,
  writeRecord,
} from "./saturation.ts";

class SaturatingWorker {
  readonly ends: Record<string, number> = {};
  readonly #senders: Sender[] = [];
  #sent = 0;

  add(sender: Sender): void {
    this.#senders.push(sender);
    sender.onEnded = (why) => this.ends[why] = (this.ends[why] ?? 0) + 1;
  }

  /** A few records per turn of the event loop: each turn is a wake of its own, which on-admission flushing may write. */
  async run(arm: SaturationArm): Promise<void> {
    const record = new Uint8Array(arm.recordBytes);
    let inTurn = 0;
    for (let index = 0; index < arm.records; index++) {
      for (let stream = 0; stream < this.#senders.length; stream++) {
        writeRecord(record, stream, index, Date.now());
        this.#senders[stream]!.sendData(record);
        this.#sent++;
        if (index === arm.records - 1) this.#senders[stream]!.finalize();
        if (++inTurn < arm.recordsPerTurn) continue;
        inTurn = 0;
        await new Promise<void>((resolve) => systemClock.defer(resolve));
      }
    }
  }

  get sent(): number {
    return this.#sent;
  }
}

async function main(arm: SaturationArm, frontend: unknown): Promise<void> {
  const transport = arm.transport === "ucx" ? new UcxTransport() : new TcpTransport({ lanes: arm.lanes });
  const messenger = new Messenger({ transports: [transport] });
  const plane = new MuxPlane(messenger, arm.mux);
  const worker = new SaturatingWorker();
  messenger.handleBytes(GENERATE_HANDLER, (payload) => {
    worker.add(plane.open(decodeRequestMessage(payload).ticket));
  });
  let running = Promise.resolve();
  messenger.handleJson(GO_HANDLER, () => {
    running = worker.run(arm);
    return null;
  });
  messenger.handleJson(REPORT_HANDLER, async () => {
    await running;
    const { batchesSent, recordsSentByType, epochDeaths, dropped } = plane.stats;
    const report: WorkerReport = {
      sent: worker.sent,
      ends: worker.ends,
      batches: batchesSent,
      dataRecords: recordsSentByType[RecordType.data]!,
      beats: recordsSentByType[RecordType.heartbeat]!,
      epochDeaths,
      overflows: dropped.withheld_overflow,
      backpressure: transport.stats.backpressure,
    };
    return report;
  });
  await messenger.start();
  messenger.registerPeer(peerInfoFromJson(frontend));
  const line = JSON.stringify(peerInfoToJson(messenger.peerInfo));
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
  // The frontend ends it by closing its input.
  for await (const _ of Deno.stdin.readable);
  plane.close();
  await messenger.shutdown(1_000);
}

if (import.meta.main) await main(JSON.parse(Deno.args[0]!), JSON.parse(Deno.args[1]!));
