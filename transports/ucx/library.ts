/**
 * Loads libucp with the environment it must see, and refuses versions whose layouts are not known.
 *
 * UCX reads its settings when it is loaded and once per context, from the process environment. `UCX_TLS`,
 * `UCX_NET_DEVICES` and whatever else the operator sets pass through.
 */
import { TokenplaneError, toTokenplaneError } from "../../src/errors.ts";
import { type CLibrary, openC, openUcp, type UcpLibrary } from "./symbols.ts";
import { checkPlatform, checkVersion, type UcxVersion } from "./layouts.ts";
import { statusName } from "./status.ts";

/** Name of the library, as the loader looks it up. */
export const UCP_LIBRARY = "libucp.so.0";

/** Settings that are always ours. */
const FORCED_ENVIRONMENT: Readonly<Record<string, string>> = Object.freeze({
  // UCX would replace the runtime's handlers of SIGSEGV and others.
  UCX_ERROR_SIGNALS: "",
  // And on SIGHUP it would stop the process, to wait for a debugger.
  UCX_DEBUG_SIGNO: "0",
});

/** Settings that the operator may override. */
const DEFAULT_ENVIRONMENT: Readonly<Record<string, string>> = Object.freeze({
  // Without a registration cache UCX needs no hooks in malloc and mmap, which it could not place in this runtime.
  UCX_RCACHE_ENABLE: "n",
  UCX_MEM_EVENTS: "n",
  // UCX logs to standard output; what matters comes back as a status and is reported by us.
  UCX_LOG_LEVEL: "fatal",
});

/** The loaded library. */
export interface UcxLibrary {
  readonly ucp: UcpLibrary["symbols"];
  readonly c: CLibrary["symbols"];
  readonly version: UcxVersion;
}

/** Puts the settings in place. Returns the names that were set here. */
export function prepareEnvironment(): string[] {
  const set: string[] = [];
  for (const [name, value] of Object.entries(FORCED_ENVIRONMENT)) {
    Deno.env.set(name, value);
    set.push(name);
  }
  for (const [name, value] of Object.entries(DEFAULT_ENVIRONMENT)) {
    if (Deno.env.get(name) !== undefined) continue;
    Deno.env.set(name, value);
    set.push(name);
  }
  return set;
}

/** Libraries by name. They stay open: the runtime keeps some memory per symbol each time one is opened. */
const loaded = new Map<string, UcxLibrary>();

/**
 * Loads UCX, once per isolate. Throws `invalid_config` with one line, "UCX not available: …", when it is missing, of
 * another version, or when foreign functions are not permitted.
 */
export function loadUcx(name: string = UCP_LIBRARY): UcxLibrary {
  const known = loaded.get(name);
  if (known !== undefined) return known;
  checkPlatform(Deno.build.os, Deno.build.arch);
  let c: CLibrary | null = null;
  let ucp: UcpLibrary | null = null;
  try {
    prepareEnvironment();
    c = openC();
    checkEnvironment(c);
    ucp = openUcp(name);
    const version = readVersion(ucp);
    checkVersion(version);
    const library = { ucp: ucp.symbols, c: c.symbols, version };
    loaded.set(name, library);
    return library;
  } catch (caught) {
    ucp?.close();
    c?.close();
    throw notAvailable(caught);
  }
}

/** The settings must have reached the C environment, where UCX reads them, or its signal handlers get installed. */
function checkEnvironment(c: CLibrary): void {
  const found = c.symbols.getenv(new TextEncoder().encode("UCX_ERROR_SIGNALS\0"));
  if (found !== null && new Deno.UnsafePointerView(found).getUint8(0) === 0) return;
  throw new Error("UCX_ERROR_SIGNALS, once set, does not reach native code");
}

function readVersion(ucp: UcpLibrary): UcxVersion {
  const numbers = new Uint32Array(3);
  const at = (index: number) => new Uint8Array(numbers.buffer, index * 4, 4);
  ucp.symbols.ucp_get_version(at(0), at(1), at(2));
  return { major: numbers[0]!, minor: numbers[1]!, release: numbers[2]! };
}

/** One line, whatever went wrong. */
function notAvailable(caught: unknown): TokenplaneError {
  if (caught instanceof TokenplaneError) return caught;
  const cause = toTokenplaneError(caught);
  const reason = cause.message.split("\n")[0]!.replace(/^(Could not open library: )+/, "");
  return new TokenplaneError("invalid_config", `UCX not available: ${reason}`, {
    scope: "process",
    cause: caught,
  });
}

/** The error for a step of starting UCX that came back with a status. */
export function startFailure(step: string, status: number): TokenplaneError {
  const settings = ["UCX_TLS", "UCX_NET_DEVICES"]
    .map((name) => ({ name, value: Deno.env.get(name) }))
    .filter(({ value }) => value !== undefined)
    .map(({ name, value }) => `${name} is "${value}"`)
    .join(", ");
  return new TokenplaneError(
    "invalid_config",
    `UCX not available: ${step}: ${statusName(status)}${settings === "" ? "" : ` (${settings})`}`,
    { scope: "process" },
  );
}

/** Throws {@linkcode startFailure} unless the status is 0. */
export function mustStart(step: string, status: number): void {
  if (status !== 0) throw startFailure(step, status);
}
