/** Settings that contradict each other. Ranges of single settings are in the schema. */
import { formatHostPort, type HostPort, isIpHost, isLoopbackHost } from "./host_port.ts";
import type { Mode, Setting } from "./setting.ts";
import { envOf } from "./setting.ts";

/** What the rules look at: resolved values, and the name under which each given one was given. */
export interface Given {
  readonly mode: Mode;
  readonly values: Readonly<Record<string, unknown>>;
  /** `--flag` or the variable's name, by flag; absent for a setting left at its default. */
  readonly names: ReadonlyMap<string, string>;
}

const MAX_PORT = 65_535;

/** Frontends beyond this machine, as far as their hosts tell, of a worker that can be reached from here alone. */
export function findUnreachable(values: Readonly<Record<string, unknown>>): readonly HostPort[] {
  const nodeListen = values["nodeListen"] as HostPort;
  const frontends = values["frontends"] as readonly HostPort[];
  if (values["advertiseHost"] !== null || !isLoopbackHost(nodeListen.host)) return [];
  // To dial an unspecified address is to dial this machine.
  return frontends.filter(({ host }) => !isLoopbackHost(host) && host !== "0.0.0.0" && host !== "::");
}

/** The first contradiction, as the rest of a sentence that begins with "Cannot use"; null when there is none. */
export function findContradiction(given: Given, settings: readonly Setting[]): string | null {
  const { mode, values, names } = given;
  const name = (flag: string) => names.get(flag) ?? `--${flag}`;
  if (mode === "worker") {
    const engine = values["engine"] as string;
    const other = engine === "mock" ? "OpenAI-compatible engine" : "Mock engine";
    for (const setting of settings) {
      if (setting.group === other && names.has(setting.flag)) {
        return `${names.get(setting.flag)} with ${name("engine")} "${engine}": it is for the ${
          engine === "mock" ? '"openai"' : '"mock"'
        } engine`;
      }
    }
    if (engine === "openai" && values["engineUrl"] === null) {
      return `${name("engine")} "openai" without --engine-url (${
        envOf(settings.find((one) => one.flag === "engine-url")!)
      }): the server behind the worker must be named, e.g. "http://127.0.0.1:8080/v1"`;
    }
    if (engine === "openai" && values["flush"] === "step") {
      return `${name("flush")} "step" with ${
        name("engine")
      } "openai": only the "mock" engine has decode steps`;
    }
    if ((values["frontends"] as readonly unknown[]).length === 0) {
      return 'worker without --frontend (TOKENPLANE_FRONTEND): at least one HOST:PORT, e.g. "127.0.0.1:7000"';
    }
    const far = findUnreachable(values).find(({ host }) => isIpHost(host));
    if (far !== undefined) {
      return `${name("node-listen")} "${formatHostPort(values["nodeListen"] as HostPort)}" with ${
        name("frontend")
      } "${formatHostPort(far)}": a frontend elsewhere cannot reach loopback, use e.g. --node-listen :0`;
    }
  }
  const access = mode === "worker" ? null : findAccessContradiction(given, name);
  if (access !== null) return access;
  const node = values["nodeListen"] as HostPort | undefined;
  const shards = values["shards"] as number | undefined;
  if (node !== undefined && shards !== undefined && node.port + shards - 1 > MAX_PORT && node.port > 0) {
    return `${name("node-listen")} "${formatHostPort(node)}" with ${
      name("shards")
    } ${shards}: each shard takes the next port, allowed up to ${MAX_PORT}`;
  }
  if (values["flush"] === "step" && names.has("batch-ms")) {
    return `${name("flush")} "step" with ${name("batch-ms")}: with "step" the engine says when to write`;
  }
  const simulated = findMockContradiction(given, settings);
  if (simulated !== null) return simulated;
  const slot = values["slotByteBudget"] as number;
  const peer = values["peerByteBudget"] as number;
  if (slot > peer) {
    return `${name("slot-byte-budget")} ${slot} with ${
      name("peer-byte-budget")
    } ${peer}: allowed up to the peer's budget`;
  }
  const body = values["maxBodyBytes"] as number | undefined;
  const bodies = values["maxBodyBytesInFlight"] as number | undefined;
  if (body !== undefined && bodies !== undefined && body > bodies) {
    return `${name("max-body-bytes")} ${body} with ${
      name("max-body-bytes-in-flight")
    } ${bodies}: allowed up to that of all bodies together`;
  }
  return null;
}

/** Settings of one way in which the mock keeps time, given together with the other. */
const FIXED_ONLY: readonly string[] = ["mock-ttft-ms", "mock-itl-ms"];
const SIMULATED_ONLY: readonly string[] = [
  "virtual-workers",
  "mock-kv-blocks",
  "mock-max-sequences",
  "mock-max-batched-tokens",
  "mock-chunked-prefill",
  "mock-prefix-caching",
];

function findMockContradiction({ values, names }: Given, settings: readonly Setting[]): string | null {
  const timing = values["mockTiming"];
  if (timing === undefined) return null;
  const others = timing === "simulated" ? FIXED_ONLY : SIMULATED_ONLY;
  const given = settings.find(({ flag }) => others.includes(flag) && names.has(flag));
  if (given === undefined) return null;
  const needed = timing === "simulated" ? "fixed" : "simulated";
  return `${names.get(given.flag)} with ${
    names.get("mock-timing") ?? "--mock-timing"
  } "${timing}": it is for "${needed}"`;
}

/** The same of keys and TLS. */
function findAccessContradiction({ values }: Given, name: (flag: string) => string): string | null {
  const hasCert = values["tlsCert"] !== null;
  if (hasCert !== (values["tlsKey"] !== null)) {
    const [given, absent] = hasCert ? ["tls-cert", "tls-key"] : ["tls-key", "tls-cert"];
    return `${name(given!)} without --${absent}: TLS takes a certificate and its key`;
  }
  const egress = values["egress"] as string;
  if (hasCert && (egress === "ring" || egress === "ffi")) {
    return `${name("egress")} "${egress}" with ${
      name("tls-cert")
    }: it goes past TLS, allowed are "auto", "socket", "portable"`;
  }
  if ((values["apiKeys"] as readonly unknown[]).length > 0 || values["apiKeyFile"] !== null) return null;
  for (
    const [flag, key] of [
      ["key-requests-per-minute", "keyRequestsPerMinute"],
      ["key-concurrent-requests", "keyConcurrentRequests"],
    ] as const
  ) {
    const limit = values[key] as number;
    if (limit > 0) {
      return `${name(flag)} ${limit} without --api-key or --api-key-file: it is a limit of each key`;
    }
  }
  return null;
}
