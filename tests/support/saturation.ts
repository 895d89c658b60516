/**
 * The failure that the UCX transport of the reference had, rebuilt: one worker with thousands of streams, and a frontend
 * that takes each record so slowly that what is under way is many watchdog windows long.
 *
 * Two processes: this one is the frontend, `saturation_worker.ts` the worker. Each has an event loop of its own, so that
 * the worker is healthy all the time.
 */
import { Messenger } from "../../src/messenger/messenger.ts";
import { peerInfoFromJson, peerInfoToJson } from "../../src/messenger/peer_info.ts";
import type { MuxOptions } from "../../src/mux/options.ts";
import { MuxPlane } from "../../src/plane/mux_plane.ts";
import { encodeRequestMessage, GENERATE_HANDLER } from "../../src/plane/request_message.ts";
import type { StreamConsumer, StreamEnd } from "../../src/stream.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { fillPattern, matchesPattern } from "./pattern.ts";

/** Starts the records. */
export const GO_HANDLER = "saturation_go";
/** Answers a {@linkcode WorkerReport} when every record has been given to its sender. */
export const REPORT_HANDLER = "saturation_report";

const HEADER_BYTES = 16;
const CALL_TIMEOUT_MS = 60_000;
/** Requests under way at a time while the streams are set up. */
const SETUP_WIDTH = 64;

/** One run. */
export interface SaturationArm {
  readonly transport: "tcp" | "ucx";
  /** TCP connections; UCX has one. */
  readonly lanes: number;
  readonly streams: number;
  /** Records per stream, all within its window: no sender ever lacks credit. */
  readonly records: number;
  readonly recordBytes: number;
  /** Records that the worker makes in one turn of its event loop. */
  readonly recordsPerTurn: number;
  /** What the frontend works on each record, ms. */
  readonly burnMs: number;
  readonly mux: Partial<MuxOptions>;
}

/** What the worker counted. */
export interface WorkerReport {
  readonly sent: number;
  /** Ends that the worker did not ask for, by reason. */
  readonly ends: Record<string, number>;
  readonly batches: number;
  readonly dataRecords: number;
  readonly beats: number;
  readonly epochDeaths: number;
  readonly overflows: number;
  readonly backpressure: number;
}

/** What came of a run. */
export interface SaturationReport {
  readonly worker: WorkerReport;
  readonly watchdogFirings: number;
  /** Ends of streams by kind, as their consumers saw them. */
  readonly ends: Record<string, number>;
  readonly received: number;
  /** Records with other content or in another place than sent. */
  readonly wrong: number;
  /** Longest time from the making of a record to its delivery, ms. */
  readonly longestDelayMs: number;
  /** Longest time that an open stream got nothing, ms. */
  readonly longestSilenceMs: number;
  readonly dataPerBatch: number;
  readonly elapsedMs: number;
}

/** One record: which stream, which record of it, when it was made, and content that follows from the first two. */
export function writeRecord(into: Uint8Array, stream: number, index: number, madeAt: number): void {
  const view = new DataView(into.buffer, into.byteOffset, into.byteLength);
  view.setUint32(0, stream);
  view.setUint32(4, index);
  view.setFloat64(8, madeAt);
  fillPattern(into.subarray(HEADER_BYTES), stream * 65_536 + index);
}

class SlowFrontend {
  readonly ends: Record<string, number> = {};
  received = 0;
  wrong = 0;
  longestDelayMs = 0;
  longestSilenceMs = 0;
  readonly #arm: SaturationArm;
  readonly #done = Promise.withResolvers<void>();
  #open: number;

  constructor(arm: SaturationArm) {
    this.#arm = arm;
    this.#open = arm.streams;
  }

  get done(): Promise<void> {
    return this.#done.promise;
  }

  consumer(stream: number): StreamConsumer {
    let next = 0;
    let heardAt = 0;
    return {
      onData: (bytes, start, end) => {
        const record = bytes.subarray(start, end);
        const view = new DataView(record.buffer, record.byteOffset, record.byteLength);
        const isRight = record.length === this.#arm.recordBytes && view.getUint32(0) === stream &&
          view.getUint32(4) === next && matchesPattern(record.subarray(HEADER_BYTES), stream * 65_536 + next);
        if (!isRight) this.wrong++;
        next++;
        this.received++;
        const now = Date.now();
        const madeAt = view.getFloat64(8);
        this.longestDelayMs = Math.max(this.longestDelayMs, now - madeAt);
        this.longestSilenceMs = Math.max(this.longestSilenceMs, now - (heardAt === 0 ? madeAt : heardAt));
        heardAt = now;
        const until = performance.now() + this.#arm.burnMs;
        while (performance.now() < until);
      },
      onNote: () => this.wrong++,
      onEnd: (end: StreamEnd) => {
        if (end.kind === "finalized" && next !== this.#arm.records) this.wrong++;
        this.ends[end.kind] = (this.ends[end.kind] ?? 0) + 1;
        if (--this.#open === 0) this.#done.resolve();
      },
    };
  }
}

/** Runs one arm to its end. */
export async function saturate(
  arm: SaturationArm,
  env: Record<string, string> = {},
): Promise<SaturationReport> {
  const transport = arm.transport === "ucx" ? new UcxTransport() : new TcpTransport({ lanes: arm.lanes });
  const messenger = new Messenger({ transports: [transport] });
  const plane = new MuxPlane(messenger, arm.mux);
  await messenger.start();
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "-q", new URL("./saturation_worker.ts", import.meta.url).pathname],
      ...[JSON.stringify(arm), JSON.stringify(peerInfoToJson(messenger.peerInfo))],
    ],
    env,
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  try {
    const worker =
      messenger.registerPeer(peerInfoFromJson(JSON.parse(await firstLine(child.stdout)))).instanceId;
    const frontend = new SlowFrontend(arm);
    await setUp(arm, messenger, plane, worker, frontend);
    const begun = performance.now();
    await messenger.requestJson(worker, GO_HANDLER, {}, CALL_TIMEOUT_MS);
    await frontend.done;
    const elapsedMs = performance.now() - begun;
    const report = await messenger.requestJson(worker, REPORT_HANDLER, {}, CALL_TIMEOUT_MS) as WorkerReport;
    return {
      worker: report,
      watchdogFirings: plane.stats.watchdogFirings,
      ends: frontend.ends,
      received: frontend.received,
      wrong: frontend.wrong,
      longestDelayMs: frontend.longestDelayMs,
      longestSilenceMs: frontend.longestSilenceMs,
      dataPerBatch: report.dataRecords / report.batches,
      elapsedMs,
    };
  } finally {
    await child.stdin.close();
    await child.status;
    plane.close();
    await messenger.shutdown(1_000);
  }
}

/** Opens every stream, by a request each, as a frontend does. */
async function setUp(
  arm: SaturationArm,
  messenger: Messenger,
  plane: MuxPlane,
  worker: string,
  frontend: SlowFrontend,
): Promise<void> {
  const body = new Uint8Array(2);
  const request = { path: "/v1/chat/completions", model: "m", stream: true, headers: {}, body };
  for (let first = 0; first < arm.streams; first += SETUP_WIDTH) {
    const calls: Promise<void>[] = [];
    for (let stream = first; stream < Math.min(arm.streams, first + SETUP_WIDTH); stream++) {
      const { ticket } = plane.register(frontend.consumer(stream), worker);
      const message = encodeRequestMessage({ ...request, id: `s${stream}`, ticket });
      calls.push(messenger.requestAck(worker, GENERATE_HANDLER, message, CALL_TIMEOUT_MS));
    }
    await Promise.all(calls);
  }
}

async function firstLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("\n")) {
    const { done, value } = await reader.read();
    if (done) throw new Error("The worker process ended before it said where it is");
    text += value;
  }
  await reader.cancel();
  return text;
}
