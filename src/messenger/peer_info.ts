/** How a node tells others who it is and where it listens (wire: identity and registration). */
import { encode } from "@std/msgpack";
import type { InstanceId } from "../../transports/contract.ts";
import { decodeMsgpack } from "../../transports/msgpack_guard.ts";
import { TokenplaneError } from "../errors.ts";
import { isInstanceId } from "./worker_id.ts";

/** As JSON: `{"instance_id":"<uuid>","worker_address":[<byte>,...]}`. */
export interface PeerInfo {
  readonly instanceId: InstanceId;
  /** MessagePack map of transport key to entry, entries as arrays of ints. */
  readonly workerAddress: Uint8Array;
}

/** Largest worker address this node takes from a peer, in bytes. */
export const MAX_ADDRESS_BYTES = 65_536;

/** Writes transport entries as a WorkerAddress. Entries are arrays of ints: a `bin` would be refused by peers. */
export function encodeWorkerAddress(entries: ReadonlyMap<string, Uint8Array>): Uint8Array<ArrayBuffer> {
  const map: Record<string, number[]> = {};
  for (const [key, entry] of entries) map[key] = Array.from(entry);
  return encode(map) as Uint8Array<ArrayBuffer>;
}

/** Reads a WorkerAddress. Entries may be arrays of ints or `bin`. Throws `protocol` or `too_large`. */
export function decodeWorkerAddress(address: Uint8Array): Map<string, Uint8Array> {
  if (address.length === 0) throw malformed("it is empty");
  const value = decodeMsgpack(address, { maxBytes: MAX_ADDRESS_BYTES, maxDepth: 2 });
  if (typeof value !== "object" || value === null || Array.isArray(value) || value instanceof Uint8Array) {
    throw malformed("it is no map");
  }
  const entries = new Map<string, Uint8Array>();
  for (const [key, entry] of Object.entries(value)) entries.set(key, toBytes(entry));
  return entries;
}

/** The JSON form of a PeerInfo, ready for `stringifyJson`. */
export function peerInfoToJson(info: PeerInfo): { instance_id: string; worker_address: number[] } {
  return { instance_id: info.instanceId, worker_address: Array.from(info.workerAddress) };
}

/** Reads the JSON form of a PeerInfo; unknown fields are ignored. Throws `protocol` or `too_large`. */
export function peerInfoFromJson(value: unknown): PeerInfo {
  const fields = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  const instanceId = fields["instance_id"];
  if (!isInstanceId(instanceId)) {
    throw new TokenplaneError("protocol", "Cannot read peer info: instance_id is no UUID");
  }
  const workerAddress = toBytes(fields["worker_address"]);
  decodeWorkerAddress(workerAddress);
  return { instanceId, workerAddress };
}

/** Whether two peer infos say the same. */
export function isSamePeerInfo(a: PeerInfo, b: PeerInfo): boolean {
  return a.instanceId === b.instanceId && isSameBytes(a.workerAddress, b.workerAddress);
}

function isSameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

function toBytes(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value.slice();
  if (!Array.isArray(value)) throw malformed("an entry is no array of bytes");
  if (value.length > MAX_ADDRESS_BYTES) {
    throw new TokenplaneError("too_large", `Cannot read worker address: over ${MAX_ADDRESS_BYTES} bytes`);
  }
  const bytes = new Uint8Array(value.length);
  for (let i = 0; i < value.length; i++) {
    const byte: unknown = value[i];
    if (typeof byte !== "number" || !Number.isInteger(byte) || byte < 0 || byte > 255) {
      throw malformed("an entry is no array of bytes");
    }
    bytes[i] = byte;
  }
  return bytes;
}

function malformed(why: string): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot read worker address: ${why}`);
}
