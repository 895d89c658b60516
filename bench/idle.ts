/** `deno task bench:idle`: very many slow streams on one frontend; all must complete, in bounded memory. */

import { helpText, parseFlags } from "./support/flags.ts";
import { runLoad } from "./support/load_client.ts";
import { PAIR_FLAGS, withPair } from "./support/pair.ts";
import { print } from "./support/print.ts";
import { runBenchmark, verdict } from "./support/verdict.ts";

const MIB = 1024 * 1024;
const RSS_BAR_MIB = 1_024;

const FLAGS = {
  streams: { default: 8_192, help: "concurrent streams" },
  tokens: { default: 10, help: "tokens per stream" },
  "step-ms": { default: 2_000, help: "time between two tokens of a stream" },
  "ramp-seconds": { default: 5, help: "the requests are spread over so long" },
  ...PAIR_FLAGS,
} as const;

async function main(args: readonly string[]): Promise<boolean> {
  if (args.includes("--help")) return print(helpText("deno task bench:idle", FLAGS)), true;
  const flags = parseFlags(args, FLAGS);
  const { streams, tokens } = flags;
  const stepMs = flags["step-ms"];
  return await withPair({ flags, streams, tokens, stepMs, openFiles: streams + 1_024 }, async (pair) => {
    const load = await runLoad({
      ...pair.client,
      streams,
      tokens,
      rounds: 1,
      rampSeconds: flags["ramp-seconds"],
      deadlineSeconds: flags["ramp-seconds"] + tokens * stepMs / 1_000 + 30,
    });
    const peak = pair.memoryPeak() / MIB;
    print(
      `${load.all_requests} of ${streams} streams complete in ${load.seconds.toFixed(1)} s; ` +
        `TTFT p50 ${load.ttft_ms.p50} ms, p99 ${load.ttft_ms.p99} ms, gap p99 ${load.gap_ms.p99} ms`,
    );
    return [
      verdict(
        peak < RSS_BAR_MIB,
        `frontend resident memory at most ${peak.toFixed(0)} MiB (bar ${RSS_BAR_MIB})`,
      ),
      verdict(load.all_requests === streams, "all streams complete"),
      verdict(load.errors_total === 0, `${load.errors_total} errors ${load.first_error}`),
    ].every((holds) => holds);
  });
}

if (import.meta.main) await runBenchmark(main);
