/**
 * Where a node can be dialled: the value of its `tcp` entry.
 *
 * MessagePack array of `[name, ip, port, prefix length, numa node or nil]`. Read, but not written: the text forms
 * `tcp://host:port`, `grpc://host:port` and `host:port`.
 */
import { encode } from "@std/msgpack";
import { TokenplaneError } from "../../src/errors.ts";
import { decodeMsgpack } from "../msgpack_guard.ts";
import { isInSubnet, isIpv6, isLoopback } from "./ip.ts";

/** One address of a node. */
export interface Endpoint {
  /** Interface name; empty when the node is bound to one address. */
  readonly name: string;
  readonly host: string;
  readonly port: number;
  /** Length of the subnet's prefix, bits. */
  readonly prefix: number;
  readonly numa: number | null;
}

/** An address of this machine, as far as choosing an endpoint needs it. */
export type LocalInterface = Pick<Deno.NetworkInterfaceInfo, "name" | "family" | "address" | "cidr">;

const MAX_ENTRY_BYTES = 16_384;
const MAX_ENDPOINTS = 256;
const TEXT_FORM = /^(?:(?:tcp|grpc):\/\/)?(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_.-]+)):(\d{1,5})\/?$/;

/** What a node listening on `hostname` advertises. */
export function advertisedEndpoints(
  hostname: string,
  port: number,
  interfaces: () => readonly LocalInterface[],
): Endpoint[] {
  const v6 = isIpv6(hostname);
  if (hostname !== "0.0.0.0" && hostname !== "::") {
    return [{ name: "", host: hostname, port, prefix: v6 ? 128 : 32, numa: null }];
  }
  const found = interfaces()
    .filter((item) => (item.family === "IPv6") === v6 && !isLoopback(item.address))
    .filter((item) => !item.address.toLowerCase().startsWith("fe80:"))
    .map((item) => ({ name: item.name, host: item.address, port, prefix: prefixOf(item), numa: null }));
  if (found.length > 0) return found;
  return [{ name: "lo", host: v6 ? "::1" : "127.0.0.1", port, prefix: v6 ? 128 : 8, numa: null }];
}

/** Writes the entry. */
export function encodeEndpoints(endpoints: readonly Endpoint[]): Uint8Array<ArrayBuffer> {
  return encode(endpoints.map((e) => [e.name, e.host, e.port, e.prefix, e.numa])) as Uint8Array<ArrayBuffer>;
}

/** Reads an entry in any of its forms. Throws `protocol` or `too_large`. */
export function decodeEndpoints(entry: Uint8Array): Endpoint[] {
  const first = entry[0];
  if (first === undefined) throw malformed("it is empty");
  const isArray = (first >= 0x90 && first <= 0x9f) || first === 0xdc || first === 0xdd;
  if (!isArray) return [parseTextEndpoint(entry)];
  const list = decodeMsgpack(entry, { maxBytes: MAX_ENTRY_BYTES, maxDepth: 2 });
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_ENDPOINTS) {
    throw malformed(`it has no endpoint or more than ${MAX_ENDPOINTS}`);
  }
  return list.map(toEndpoint);
}

/**
 * The endpoint to dial: on this process's NUMA node and subnet, on its NUMA node, on a subnet of this machine, not
 * loopback, or simply the first.
 */
export function selectEndpoint(
  endpoints: readonly Endpoint[],
  interfaces: () => readonly LocalInterface[],
  numaHint: number | null = null,
): Endpoint {
  const first = endpoints[0];
  if (first === undefined) throw malformed("it has no endpoint");
  if (endpoints.length === 1) return first;
  const local = interfaces();
  const isNear = (e: Endpoint): boolean =>
    local.some((item) => isInSubnet(e.host, item.address, Math.min(e.prefix, prefixOf(item))));
  const onNode = numaHint === null ? [] : endpoints.filter((e) => e.numa === numaHint);
  return onNode.find(isNear) ?? onNode[0] ?? endpoints.find(isNear) ??
    endpoints.find((e) => !isLoopback(e.host)) ?? first;
}

function toEndpoint(value: unknown): Endpoint {
  if (!Array.isArray(value) || value.length < 4) throw malformed("an endpoint is no array of five");
  const [name, host, port, prefix, numa] = value as unknown[];
  if (typeof name !== "string" || typeof host !== "string" || host.length === 0) {
    throw malformed("an ip is no text");
  }
  if (!isIntegerUpTo(port, 65_535) || !isIntegerUpTo(prefix, 128)) {
    throw malformed("a port or prefix is out of range");
  }
  return { name, host, port, prefix, numa: typeof numa === "number" ? numa : null };
}

function parseTextEndpoint(entry: Uint8Array): Endpoint {
  const text = entry.length > 512 ? "" : new TextDecoder().decode(entry);
  const match = TEXT_FORM.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || !isIntegerUpTo(port, 65_535)) {
    throw malformed('it is neither an array nor "host:port"');
  }
  return { name: "", host, port, prefix: isIpv6(host) ? 128 : 32, numa: null };
}

function isIntegerUpTo(value: unknown, high: number): value is number {
  return typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= high;
}

function prefixOf(item: LocalInterface): number {
  const prefix = Number(item.cidr?.split("/")[1]);
  return Number.isInteger(prefix) ? prefix : item.family === "IPv6" ? 128 : 32;
}

function malformed(why: string): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot read endpoint entry: ${why}`);
}
