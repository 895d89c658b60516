/** Settings of who may ask a frontend for something, how much of it, and by what it proves itself. */
import { DEFAULT_FRONTEND_OPTIONS as defaults } from "../../frontend/options.ts";
import { MAX_CONCURRENT, MAX_RPM } from "../../frontend/keys/key_entry.ts";
import type { Setting } from "../setting.ts";

const modes = ["start", "frontend"] as const;
const KEYS = "API keys";
const TLS = "TLS";
const MAX_PATH = 4_096;

/** API keys and TLS. */
export const ACCESS_SETTINGS = [
  {
    kind: "secret",
    flag: "api-key",
    key: "apiKeys",
    modes,
    group: KEYS,
    repeat: true,
    default: null,
    help: "A key that clients must send as bearer token on `/v1/…`; none: everyone is let in.",
    cost: "A request without one of the keys gets 401. Prefer the variable: flags show in process lists.",
  },
  {
    kind: "text",
    flag: "api-key-file",
    modes,
    group: KEYS,
    maxLength: MAX_PATH,
    default: null,
    help: "More of them: `KEY [rpm=N] [concurrent=N] [# NAME]` a line; read again when it has changed.",
    cost:
      "A file that cannot be used leaves the keys as they were, and says so; one without keys lets nobody in.",
  },
  {
    kind: "int",
    flag: "key-requests-per-minute",
    modes,
    group: KEYS,
    unit: "requests, 0 = any number",
    default: defaults.keyRequestsPerMinute,
    min: 0,
    max: MAX_RPM,
    help: "Completions that a key without `rpm` of its own may ask for in a minute, all shards together.",
    cost:
      "Beyond it 429 with `retry-after`. After a pause as many at once, so in one minute up to twice as many.",
  },
  {
    kind: "int",
    flag: "key-concurrent-requests",
    modes,
    group: KEYS,
    unit: "requests, 0 = any number",
    default: defaults.keyConcurrentRequests,
    min: 0,
    max: MAX_CONCURRENT,
    help: "The same of completions at one time, for a key without `concurrent` of its own.",
    cost: "Beyond it 429 with `retry-after`.",
  },
  {
    kind: "text",
    flag: "tls-cert",
    modes,
    group: TLS,
    maxLength: MAX_PATH,
    default: null,
    help:
      "PEM file of the certificate that HTTP is served by, then its chain; read again when it has changed.",
    cost:
      "Tokens then leave by the runtime's own writes: see `bench/README.md`. A bad pair leaves the one before.",
  },
  {
    kind: "text",
    flag: "tls-key",
    modes,
    group: TLS,
    maxLength: MAX_PATH,
    default: null,
    help: "PEM file of its private key, without a passphrase.",
    cost: "Keep it readable to this program alone.",
  },
  {
    kind: "int",
    flag: "tls-handshake-timeout-ms",
    modes,
    group: TLS,
    unit: "ms",
    default: defaults.tlsHandshakeTimeoutMs,
    min: 100,
    max: 600_000,
    help: "From a connection to the end of its handshake.",
    cost: "Beyond it the connection is closed.",
  },
  {
    kind: "int",
    flag: "max-tls-handshakes",
    modes,
    group: TLS,
    unit: "connections",
    default: defaults.maxTlsHandshakes,
    min: 1,
    max: 65_536,
    help: "Connections whose handshake is under way, per shard.",
    cost: "Beyond it the oldest of them is closed.",
  },
] as const satisfies readonly Setting[];
