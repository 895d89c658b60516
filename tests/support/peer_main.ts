/**
 * A node with nothing but a transport, as a process of its own: takes commands as JSON lines on stdin, answers each with
 * one JSON line on stdout. Started by `peer_process.ts`.
 */
import { Buffer } from "node:buffer";
import process from "node:process";
import type { FrameSink, MessageType, Transport } from "../../transports/contract.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import type { PeerCommand, PeerReport } from "./peer_process.ts";
import { fillPattern, matchesPattern } from "./pattern.ts";

const HEADER_BYTES = 35;

class PeerNode implements FrameSink {
  frames = 0;
  bytes = 0;
  /** Frames whose content or order was not what their sender says it sent. */
  wrong = 0;
  lanesLost: string[] = [];
  #awaited = Infinity;
  #onAwaited: (() => void) | null = null;
  #expectedSequence = new Map<number, number>();
  readonly #verify: boolean;

  constructor(verify: boolean) {
    this.#verify = verify;
  }

  onFrame(_from: unknown, _type: MessageType, header: Uint8Array, payload: Uint8Array): void {
    this.frames++;
    this.bytes += payload.length;
    if (this.#verify && header.length >= 8) this.#check(header, payload);
    if (this.frames >= this.#awaited) this.#onAwaited?.();
  }

  onReadEnd(): void {}
  onInboundClosed(): void {}
  onLaneLost(peer: string, _lane: number, reason: string): void {
    this.lanesLost.push(`${peer}: ${reason}`);
  }
  onShuttingDown(): void {}

  /** Resolves when that many frames have come in. */
  awaitFrames(count: number): Promise<void> {
    if (this.frames >= count) return Promise.resolve();
    this.#awaited = count;
    return new Promise((resolve) => this.#onAwaited = resolve);
  }

  #check(header: Uint8Array, payload: Uint8Array): void {
    const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
    const sender = view.getUint32(0, true);
    const sequence = view.getUint32(4, true);
    const expected = this.#expectedSequence.get(sender) ?? 0;
    this.#expectedSequence.set(sender, sequence + 1);
    if (sequence !== expected || !matchesPattern(payload, sequence)) this.wrong++;
  }
}

/** Each flood counts its frames from 0, and names itself in them. */
let floods = 0;

/** Sends `count` frames as fast as they are admitted; at most one waits. */
async function flood(
  transport: Transport,
  command: Extract<PeerCommand, { do: "flood" }>,
): Promise<{ admitted: number; failed: number }> {
  const header = new Uint8Array(HEADER_BYTES);
  const view = new DataView(header.buffer);
  view.setUint32(0, ((process.pid << 8) | (floods++ & 0xff)) >>> 0, true);
  const payload = new Uint8Array(command.bytes);
  let admitted = 0;
  let failed = 0;
  let wake: (() => void) | null = null;
  const onAdmission = (error: unknown) => {
    if (error === null) admitted++;
    else failed++;
    wake?.();
  };
  for (let sequence = 0; sequence < command.count; sequence++) {
    view.setUint32(4, sequence, true);
    if (command.verify) fillPattern(payload, sequence);
    const lane = sequence % Math.min(transport.lanes, command.lanes ?? 1);
    if (transport.send(command.to, lane, 0, header, [payload], onAdmission)) {
      admitted++;
    } else {
      await new Promise<void>((resolve) => wake = resolve);
    }
  }
  return { admitted, failed };
}

async function run(transport: Transport, node: PeerNode, command: PeerCommand): Promise<PeerReport> {
  const before = process.cpuUsage();
  const start = performance.now();
  const report: PeerReport = {};
  switch (command.do) {
    case "register":
      transport.register(command.peer, new Uint8Array(Buffer.from(command.entry, "base64")));
      break;
    case "flood":
      Object.assign(report, await flood(transport, command));
      break;
    case "await":
      await node.awaitFrames(command.frames);
      break;
    case "stall": {
      // Blocks the isolate, as a frontend with too much to do.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, command.ms);
      break;
    }
    case "sleep":
      await new Promise((resolve) => setTimeout(resolve, command.ms));
      break;
    case "health":
      report.health = await transport.checkHealth(command.peer, command.timeoutMs)
        .then(() => "ok", (error) => error.code);
      break;
    case "report":
      if (transport instanceof UcxTransport && transport.runtime !== null) {
        report.sends = { ...transport.runtime.sender.counts };
        report.outstanding = transport.runtime.sender.outstanding;
        report.buffersTaken = transport.runtime.memory.taken;
      }
      report.signals = /^SigCgt:\s*(\w+)/m.exec(Deno.readTextFileSync("/proc/self/status"))?.[1] ?? "";
      break;
    case "stop":
      await transport.shutdown(command.deadlineMs);
      break;
  }
  const cpu = process.cpuUsage(before);
  report.ms = performance.now() - start;
  report.cpuMs = (cpu.user + cpu.system) / 1_000;
  report.frames = node.frames;
  report.wrong = node.wrong;
  report.lanesLost = node.lanesLost;
  return report;
}

async function main(): Promise<void> {
  const options = JSON.parse(Deno.args[0] ?? "{}") as { transport: string; verify: boolean; options: object };
  const transport = options.transport === "ucx"
    ? new UcxTransport(options.options)
    : new TcpTransport(options.options);
  const node = new PeerNode(options.verify);
  const write = (report: object) =>
    Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify(report)}\n`));
  try {
    await transport.start(node);
  } catch (error) {
    write({ error: error instanceof Error ? error.message : String(error) });
    Deno.exit(2);
  }
  write({ entry: Buffer.from(transport.addressEntry()).toString("base64") });
  let rest = "";
  for await (
    const text of Deno.stdin.readable.pipeThrough(new TextDecoderStream() as never) as ReadableStream<string>
  ) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      const command = JSON.parse(line) as PeerCommand & { tag: number };
      // Not awaited: a flood and a report may overlap.
      void run(transport, node, command).then((report) => write({ tag: command.tag, ...report }));
    }
  }
}

if (import.meta.main) await main();
