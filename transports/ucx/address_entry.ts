/**
 * The transport's entry in a WorkerAddress: MessagePack array of
 *
 * | field | type | value |
 * |---|---|---|
 * | version | u8 | 1 |
 * | active-message id base | u16 | 0x5645 |
 * | eager maximum | u32 | largest header and payload accepted, bytes |
 * | incarnation | u64 | random per process start |
 * | worker address | bin | packed address of the UCX worker |
 *
 * What is inside the worker address is UCX's own affair: it unpacks it without distrust, so peers of this transport are
 * trusted as far as their address goes. Its size is bounded here.
 */
import { decode } from "@std/msgpack";
import { TokenplaneError, toTokenplaneError } from "../../src/errors.ts";
import { MAX_FRAME_BYTES } from "../contract.ts";
import { measureMsgpack } from "../msgpack_guard.ts";
import { AM_ID_BASE } from "./kinds.ts";

/** Version of the entry. */
export const ENTRY_VERSION = 1;
/** Largest worker address taken from a peer, bytes; real ones have 50 to 500. */
export const MAX_WORKER_ADDRESS_BYTES = 16_384;

/** What a node says about its UCX worker. */
export interface UcxAddress {
  /** Bytes, at most 16 MiB. */
  readonly eagerMax: number;
  readonly incarnation: bigint;
  readonly workerAddress: Uint8Array<ArrayBuffer>;
}

/** Encodes an entry; integers take their shortest form. */
export function encodeAddressEntry(address: UcxAddress): Uint8Array<ArrayBuffer> {
  const out: number[] = [0x95];
  pushInteger(out, BigInt(ENTRY_VERSION));
  pushInteger(out, BigInt(AM_ID_BASE));
  pushInteger(out, BigInt(address.eagerMax));
  pushInteger(out, address.incarnation);
  const length = address.workerAddress.length;
  if (length <= 0xff) out.push(0xc4, length);
  else if (length <= 0xffff) out.push(0xc5, length >>> 8, length & 0xff);
  else throw new TokenplaneError("internal", `Cannot encode UCX address: it has ${length} bytes`);
  const bytes = new Uint8Array(out.length + length);
  bytes.set(out, 0);
  bytes.set(address.workerAddress, out.length);
  return bytes;
}

/** Decodes a peer's entry. Throws `invalid_request` with one line for anything that is not one. */
export function decodeAddressEntry(bytes: Uint8Array): UcxAddress {
  let fields: unknown;
  try {
    const length = measureMsgpack(bytes, { maxBytes: MAX_WORKER_ADDRESS_BYTES + 64, maxDepth: 1 });
    fields = decode(bytes.slice(0, length));
  } catch (caught) {
    throw refused(toTokenplaneError(caught).message, caught);
  }
  if (!Array.isArray(fields) || fields.length !== 5) throw refused("it is not an array of 5");
  const [version, base, eagerMax, incarnation, workerAddress] = fields as unknown[];
  if (asInteger(version) !== BigInt(ENTRY_VERSION)) throw refused(`its version is not ${ENTRY_VERSION}`);
  if (asInteger(base) !== BigInt(AM_ID_BASE)) throw refused(`its message id base is not ${AM_ID_BASE}`);
  const eager = asInteger(eagerMax);
  if (eager === null || eager < 1n || eager > 0xffff_ffffn) {
    throw refused("its eager maximum is out of range");
  }
  const life = asInteger(incarnation);
  if (life === null || life < 0n || life > 0xffff_ffff_ffff_ffffn) {
    throw refused("its incarnation is out of range");
  }
  if (!(workerAddress instanceof Uint8Array) || workerAddress.length === 0) {
    throw refused("its worker address is empty");
  }
  if (workerAddress.length > MAX_WORKER_ADDRESS_BYTES) {
    throw refused(`its worker address is larger than ${MAX_WORKER_ADDRESS_BYTES} bytes`);
  }
  return {
    eagerMax: Math.min(Number(eager), MAX_FRAME_BYTES),
    incarnation: life,
    workerAddress: new Uint8Array(workerAddress),
  };
}

function refused(reason: string, cause?: unknown): TokenplaneError {
  return new TokenplaneError("invalid_request", `Cannot use UCX address: ${reason}`, { cause });
}

function asInteger(value: unknown): bigint | null {
  if (typeof value === "bigint") return value;
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : null;
}

function pushInteger(out: number[], value: bigint): void {
  if (value < 0x80n) out.push(Number(value));
  else if (value <= 0xffn) pushBytes(out, 0xcc, value, 1);
  else if (value <= 0xffffn) pushBytes(out, 0xcd, value, 2);
  else if (value <= 0xffff_ffffn) pushBytes(out, 0xce, value, 4);
  else pushBytes(out, 0xcf, value, 8);
}

function pushBytes(out: number[], marker: number, value: bigint, width: number): void {
  out.push(marker);
  for (let shift = width - 1; shift >= 0; shift--) out.push(Number((value >> BigInt(shift * 8)) & 0xffn));
}
