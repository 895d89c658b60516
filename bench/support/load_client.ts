/** Runs the load client as a process of its own and reads what it reports. */

import { ManagedProcess } from "./managed_process.ts";
import { fromFileUrl } from "./paths.ts";

const PORTABLE_CLIENT = fromFileUrl(new URL("./portable_client.ts", import.meta.url));

/** What the client is to do; see its `usage` line. Times in seconds. */
export interface LoadOptions {
  /** The compiled client; null runs the portable one, which costs several times as much CPU. */
  readonly client: string | null;
  readonly port: number;
  readonly streams: number;
  readonly tokens: number;
  /** Length of the measured window; or `rounds` of requests per stream. */
  readonly seconds?: number;
  readonly rounds?: number;
  readonly warmupSeconds?: number;
  /** First requests are spread over so long. */
  readonly rampSeconds?: number;
  readonly deadlineSeconds?: number;
  /** Stop reading behind the first event and hold the connection to the end (C client only). */
  readonly stall?: boolean;
  /** Largest TCP segment, so that loopback buffers like a real network (C client only). */
  readonly mss?: number;
  /** By TLS; the client must have it (C client only). */
  readonly tls?: boolean;
  readonly cores?: string | null;
  readonly openFiles?: number;
  /** Called at the two ends of the measured window. */
  readonly onBegin?: () => void;
  readonly onEnd?: () => void;
}

/** Quantiles in milliseconds. */
export interface Quantiles {
  readonly p50: number;
  readonly p90: number;
  readonly p99: number;
  readonly max: number;
  readonly count: number;
}

/** What the client saw in the window; errors are those of the whole run. */
export interface LoadResult {
  readonly seconds: number;
  /** Streams that ended whole inside the window, and in the whole run. */
  readonly requests: number;
  readonly all_requests: number;
  readonly stalled: number;
  /** At most the number asked for per stream: a closing event without text is not a token. */
  readonly tokens: number;
  /** Tokens that arrived in one read together with the one before: whoever relays them wrote several at once. */
  readonly merged_tokens: number;
  readonly events: number;
  readonly body_bytes: number;
  readonly tokens_per_s: number;
  /** Request sent to first byte of the body. */
  readonly ttft_ms: Quantiles;
  /** Between two tokens of one stream. */
  readonly gap_ms: Quantiles;
  readonly client_cpu_us_per_token: number;
  /** CPU the client used, as a share of one core. */
  readonly client_core_share: number;
  readonly errors: Readonly<Record<string, number>>;
  readonly errors_total: number;
  readonly first_error: string;
}

/** The command line of one run. */
export function loadCommand(options: LoadOptions): string[] {
  const program = options.client === null
    ? [Deno.execPath(), "run", "--allow-net", PORTABLE_CLIENT]
    : [options.client];
  const flags: readonly [string, number | undefined][] = [
    ["port", options.port],
    ["streams", options.streams],
    ["tokens", options.tokens],
    ["seconds", options.seconds],
    ["rounds", options.rounds],
    ["warmup-seconds", options.warmupSeconds],
    ["ramp-seconds", options.rampSeconds],
    ["deadline-seconds", options.deadlineSeconds],
    ["mss", options.mss],
  ];
  const given = flags.flatMap(([name, value]) => value === undefined ? [] : [`--${name}`, String(value)]);
  return [...program, ...given, ...(options.stall ? ["--stall"] : []), ...(options.tls ? ["--tls"] : [])];
}

/** Runs the client to its end. Throws when it reports no result. */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  let result: LoadResult | null = null;
  const onLine = (line: string) => {
    const message = JSON.parse(line) as { event: string };
    if (message.event === "begin") options.onBegin?.();
    else if (message.event === "end") options.onEnd?.();
    else if (message.event === "result") result = message as unknown as LoadResult;
  };
  const { cores = null, openFiles } = options;
  const process = await ManagedProcess.spawn("client", loadCommand(options), {
    cores,
    onLine,
    ...(openFiles === undefined ? {} : { openFiles }),
  });
  const { warmupSeconds = 0, rampSeconds = 0, seconds = 0 } = options;
  const bound = options.deadlineSeconds ?? warmupSeconds + rampSeconds + seconds + 30;
  const code = await process.exited((bound + 10) * 1_000);
  if (result === null) {
    throw new Error(`Cannot read the client's result: exit code ${code}, it said "${process.tail}"`);
  }
  return result;
}
