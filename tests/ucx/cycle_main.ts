/** Starts and stops a pair of UCX transports again and again and prints what is left, as one JSON line. */
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { RecordingSink } from "./support.ts";

/** Until the compiler and the allocator have what they keep. */
const WARMUP = 80;

interface Holdings {
  descriptors: number;
  threads: number;
  /** Resident memory beside the JavaScript heap. */
  nativeMb: number;
}

async function cycle(): Promise<number> {
  const [a, b] = [new UcxTransport(), new UcxTransport()];
  await a.start(new RecordingSink());
  await b.start(new RecordingSink());
  a.register("b", b.addressEntry());
  b.register("a", a.addressEntry());
  for (let i = 0; i < 10; i++) a.send("b", 0, 0, new Uint8Array(8), [new Uint8Array(4_096)]);
  await b.checkHealth("a", 2_000);
  const memories = [a.runtime!.memory, b.runtime!.memory];
  await a.shutdown(500);
  await b.shutdown(500);
  return memories[0]!.taken + memories[1]!.taken + a.stats.leakedWorkers + b.stats.leakedWorkers;
}

async function holdings(): Promise<Holdings> {
  for (let i = 0; i < 5; i++) {
    (globalThis as { gc?: () => void }).gc?.();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const { rss, heapTotal } = Deno.memoryUsage();
  return {
    descriptors: [...Deno.readDirSync("/proc/self/fd")].length,
    threads: [...Deno.readDirSync("/proc/self/task")].length,
    nativeMb: (rss - heapTotal) / 1_048_576,
  };
}

async function main(cycles: number): Promise<void> {
  let held = 0;
  for (let i = 0; i < WARMUP; i++) held += await cycle();
  const before = await holdings();
  for (let i = 0; i < cycles; i++) held += await cycle();
  const after = await holdings();
  Deno.stdout.writeSync(new TextEncoder().encode(`${JSON.stringify({ held, before, after })}\n`));
}

if (import.meta.main) await main(Number(Deno.args[0]));
