/**
 * `deno task bench:memory`: clients that stop reading must cost the frontend little and others nothing. Many clients
 * stop reading behind their first event, each on a very long stream; one normal client runs beside them.
 */

import { helpText, parseFlags } from "./support/flags.ts";
import { runLoad } from "./support/load_client.ts";
import { PAIR_FLAGS, withPair } from "./support/pair.ts";
import { print } from "./support/print.ts";
import { runBenchmark, verdict } from "./support/verdict.ts";

const MIB = 1024 * 1024;
const RSS_BAR_MIB = 400;
const GAP_BAR_MS = 250;
/** The segment size of a real network. Loopback's 64 KiB segments make the kernel buffer megabytes per connection. */
const SEGMENT_BYTES = 1_460;

const FLAGS = {
  stalled: { default: 1_000, help: "clients that stop reading" },
  tokens: { default: 100_000, help: "tokens of each of their streams" },
  normal: { default: 1, help: "clients that read, one stream after the other" },
  "normal-tokens": { default: 100, help: "tokens of each of theirs" },
  "step-ms": { default: 20, help: "time between two tokens of a stream" },
  seconds: { default: 30, help: "how long the clients stay" },
  ...PAIR_FLAGS,
} as const;

async function main(args: readonly string[]): Promise<boolean> {
  if (args.includes("--help")) return print(helpText("deno task bench:memory", FLAGS)), true;
  const flags = parseFlags(args, FLAGS);
  const options = {
    flags,
    streams: flags.stalled,
    tokens: flags.tokens,
    stepMs: flags["step-ms"],
    openFiles: flags.stalled * 2 + 1_000,
  };
  return await withPair(options, async (pair) => {
    const before = pair.memoryNow() / MIB;
    const [stalled, normal] = await Promise.all([
      runLoad({
        ...pair.client,
        streams: flags.stalled,
        tokens: flags.tokens,
        stall: true,
        mss: SEGMENT_BYTES,
        rampSeconds: 2,
        seconds: flags.seconds,
      }),
      // Its window opens with the first stalled client, so that it sees them come and fill their buffers.
      runLoad({
        ...pair.client,
        streams: flags.normal,
        tokens: flags["normal-tokens"],
        seconds: Math.max(1, flags.seconds - 2),
      }),
    ]);
    const peak = pair.memoryPeak() / MIB;
    const gap = normal.gap_ms;
    print(
      `${stalled.stalled} of ${flags.stalled} clients stopped reading; normal client: ${normal.requests} streams, ` +
        `${normal.tokens} tokens, gap p50 ${gap.p50} ms, p99 ${gap.p99} ms`,
    );
    const whole = stalled.stalled === flags.stalled && stalled.errors_total + normal.errors_total === 0 &&
      normal.tokens > 0;
    return [
      verdict(
        peak < RSS_BAR_MIB,
        `frontend resident memory at most ${peak.toFixed(0)} MiB, ${
          before.toFixed(0)
        } before (bar ${RSS_BAR_MIB})`,
      ),
      verdict(
        gap.max <= GAP_BAR_MS,
        `longest gap of the normal client ${gap.max.toFixed(0)} ms (bar ${GAP_BAR_MS})`,
      ),
      verdict(whole, `no errors ${stalled.first_error || normal.first_error}`),
    ].every((holds) => holds);
  });
}

if (import.meta.main) await runBenchmark(main);
