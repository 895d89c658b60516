/** Settings of the TCP transport, with their defaults. */
import type { Clock } from "../../src/clock.ts";
import { systemClock } from "../../src/clock.ts";
import { TokenplaneError } from "../../src/errors.ts";
import type { BugReport } from "../admission.ts";
import type { FrameReaderOptions } from "./frame_reader.ts";
import type { SendQueueLimits } from "./send_queue.ts";
import { type SocketSource, systemSockets } from "./socket.ts";

/** What {@linkcode TcpTransport} takes; everything has a default. */
export interface TcpOptions {
  /** Address to listen on; a wildcard advertises every interface that is up. Default `127.0.0.1`. */
  hostname?: string;
  /** Port to listen on; 0 (default) is any free one. */
  port?: number;
  /** Address to advertise in place of the one listened on, e.g. behind a NAT. */
  advertiseHost?: string;
  /** Connections per peer, 1 to 64. Default 4. */
  lanes?: number;
  /** Frames and bytes that one lane's queue takes. Default 256 frames, 1 MiB. */
  queue?: SendQueueLimits;
  /** Longest time for a connection to come up, ms. Default 5000. */
  dialTimeoutMs?: number;
  /** Inbound connections at a time; one over that is closed at once. Default 4096. */
  maxInbound?: number;
  /** Sizes of the read buffers. */
  reader?: FrameReaderOptions;
  clock?: Clock;
  sockets?: SocketSource;
  /** Told of exceptions out of callbacks. Default: the runtime's `reportError`. */
  onBug?: BugReport;
}

/** {@linkcode TcpOptions} with nothing missing. */
export interface TcpSettings extends Required<Omit<TcpOptions, "advertiseHost">> {
  advertiseHost: string | null;
  /** The clock's `now`, to be passed around. */
  now: () => number;
}

/** Fills in defaults. Throws `invalid_config` for a value out of range. */
export function toTcpSettings(options: TcpOptions): TcpSettings {
  const clock = options.clock ?? systemClock;
  const settings: TcpSettings = {
    hostname: options.hostname ?? "127.0.0.1",
    port: options.port ?? 0,
    advertiseHost: options.advertiseHost ?? null,
    lanes: options.lanes ?? 4,
    queue: options.queue ?? { maxFrames: 256, maxBytes: 1_048_576 },
    dialTimeoutMs: options.dialTimeoutMs ?? 5_000,
    maxInbound: options.maxInbound ?? 4_096,
    reader: options.reader ?? {},
    clock,
    now: () => clock.now(),
    sockets: options.sockets ?? systemSockets,
    onBug: options.onBug ?? reportError,
  };
  checkRange("lanes", settings.lanes, 1, 64);
  checkRange("port", settings.port, 0, 65_535);
  checkRange("queue.maxFrames", settings.queue.maxFrames, 1, 1_048_576);
  checkRange("queue.maxBytes", settings.queue.maxBytes, 1, 1_073_741_824);
  checkRange("dialTimeoutMs", settings.dialTimeoutMs, 1, 600_000);
  checkRange("maxInbound", settings.maxInbound, 1, 1_048_576);
  return settings;
}

function checkRange(name: string, value: number, low: number, high: number): void {
  if (Number.isInteger(value) && value >= low && value <= high) return;
  throw new TokenplaneError(
    "invalid_config",
    `Cannot set "${name}" to ${value}: allowed are ${low} to ${high}`,
  );
}
