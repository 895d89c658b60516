/**
 * The request as it travels from a frontend to a worker: payload of `_tp_generate` (ack/nack).
 *
 * One MessagePack map; unknown keys are ignored, so that either side may learn new ones first:
 *
 * | key | type | |
 * |---|---|---|
 * | `v` | int | 1 |
 * | `id` | str | request id, printable ASCII |
 * | `path` | str | `/v1/chat/completions` or `/v1/completions` |
 * | `model` | str | |
 * | `stream` | bool | |
 * | `virtual_worker` | int | which of the worker's logical workers; absent: the worker's choice |
 * | `ticket` | map | `handle_hi`, `handle_lo`, `routing_session_id` (u64), `initial_credit`, `slot_byte_budget`, `heartbeat_interval_ms`, `lanes` (int), `free_beats` (bool), `peer` = map of `instance_id` (str), `worker_address` (bin) |
 * | `headers` | map | str to str, names in lower case |
 * | `body` | bin | the client's body, byte for byte |
 */
import { encode, type ValueMap, type ValueType } from "@std/msgpack";
import { decodeMsgpack, measureMsgpack } from "../../transports/msgpack_guard.ts";
import { TokenplaneError } from "../errors.ts";
import { isInstanceId } from "../messenger/worker_id.ts";
import type { Ticket } from "../stream.ts";

/** Name of the messenger handler that takes a request. */
export const GENERATE_HANDLER = "_tp_generate";

/** One client request with the ticket for its answer. */
export interface RequestMessage {
  readonly id: string;
  readonly path: string;
  readonly model: string;
  readonly stream: boolean;
  /** Which of the worker's logical workers; absent when that is the worker's choice. */
  readonly virtualWorker?: number;
  readonly ticket: Ticket;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

/** What a request from a frontend may at most be; over it the request is refused, not cut. */
export interface RequestLimits {
  /** Bytes of `body`. */
  readonly maxBodyBytes: number;
  /** Entries in `headers`. */
  readonly maxHeaders: number;
  /** Characters of one header value. */
  readonly maxHeaderChars: number;
}

/** The frame limit is 16 MiB; the rest of the message gets what the body leaves. */
export const DEFAULT_REQUEST_LIMITS: RequestLimits = Object.freeze({
  maxBodyBytes: 15 * 1024 * 1024,
  maxHeaders: 64,
  maxHeaderChars: 8_192,
});

/** A path that engines serve. */
export type EnginePath = "/v1/chat/completions" | "/v1/completions";
const PATHS: readonly string[] = ["/v1/chat/completions", "/v1/completions"] satisfies EnginePath[];
const MAX_ID_CHARS = 256;
const MAX_MODEL_CHARS = 512;
const MAX_ADDRESS_BYTES = 8_192;
/** Room for all but body and headers, unknown keys of later versions included. */
const MAX_OTHER_BYTES = 65_536;
const MAX_OTHER_VALUES = 128;
const MAX_U32 = 0xffff_ffff;
const MAX_U64 = 0xffff_ffff_ffff_ffffn;
const PRINTABLE = /^[\x21-\x7e]+$/;
const HEADER_NAME = /^[a-z0-9!#$%&'*+.^_`|~-]+$/;
/** What a header value may not hold: with CR or LF a value would become a header of its own. */
const HEADER_VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Encodes a request for `requestAck(worker, GENERATE_HANDLER, …)`. */
export function encodeRequestMessage(message: RequestMessage): Uint8Array {
  const { ticket } = message;
  return encode({
    v: 1,
    id: message.id,
    path: message.path,
    model: message.model,
    stream: message.stream,
    ...(message.virtualWorker === undefined ? {} : { virtual_worker: message.virtualWorker }),
    ticket: {
      handle_hi: ticket.handle.hi,
      handle_lo: ticket.handle.lo,
      routing_session_id: ticket.routingSessionId,
      initial_credit: ticket.initialCredit,
      slot_byte_budget: ticket.slotByteBudget,
      heartbeat_interval_ms: ticket.heartbeatIntervalMs,
      lanes: ticket.lanes,
      free_beats: ticket.freeBeats,
      peer: { instance_id: ticket.peer.instanceId, worker_address: ticket.peer.workerAddress },
    },
    headers: message.headers,
    body: message.body,
  });
}

/**
 * Decodes and checks a request from a frontend. The result shares no memory with `bytes`.
 *
 * Throws `protocol` when a field is missing or of the wrong shape, `too_large` when something is over its limit.
 */
export function decodeRequestMessage(
  bytes: Uint8Array,
  limits: RequestLimits = DEFAULT_REQUEST_LIMITS,
): RequestMessage {
  const bounds = {
    maxBytes: limits.maxBodyBytes + limits.maxHeaders * limits.maxHeaderChars + MAX_OTHER_BYTES,
    maxDepth: 4,
    maxValues: MAX_OTHER_VALUES + 2 * limits.maxHeaders,
  };
  if (measureMsgpack(bytes, bounds) !== bytes.length) throw refuse("message", "followed by nothing");
  const map = asMap(decodeMsgpack(bytes, bounds) as ValueType, "message");
  if (number(map, "v", 1, MAX_U32) !== 1) throw refuse("v", "1");
  const path = text(map, "path", 64);
  if (!PATHS.includes(path)) throw refuse("path", PATHS.join(" or "));
  const id = text(map, "id", MAX_ID_CHARS);
  if (!PRINTABLE.test(id)) throw refuse("id", "printable ASCII");
  const body = binary(map, "body");
  if (body.length > limits.maxBodyBytes) {
    throw new TokenplaneError(
      "too_large",
      `Cannot take a request body of ${body.length} bytes: the limit is ${limits.maxBodyBytes}`,
    );
  }
  return {
    id,
    path,
    model: text(map, "model", MAX_MODEL_CHARS),
    stream: flag(map, "stream"),
    ...(Object.hasOwn(map, "virtual_worker")
      ? { virtualWorker: number(map, "virtual_worker", 0, 0xffff) }
      : {}),
    ticket: decodeTicket(asMap(field(map, "ticket"), "ticket")),
    headers: decodeHeaders(asMap(field(map, "headers"), "headers"), limits),
    body: body.slice(),
  };
}

function decodeTicket(map: ValueMap): Ticket {
  const peer = asMap(field(map, "peer"), "peer");
  const instanceId = field(peer, "instance_id");
  if (!isInstanceId(instanceId)) throw refuse("instance_id", "a lower-case UUID");
  const workerAddress = binary(peer, "worker_address");
  if (workerAddress.length === 0 || workerAddress.length > MAX_ADDRESS_BYTES) {
    throw refuse("worker_address", `1 to ${MAX_ADDRESS_BYTES} bytes`);
  }
  return {
    handle: { hi: u64(map, "handle_hi"), lo: u64(map, "handle_lo") },
    routingSessionId: u64(map, "routing_session_id"),
    initialCredit: number(map, "initial_credit", 0, MAX_U32),
    slotByteBudget: number(map, "slot_byte_budget", 0, MAX_U32),
    heartbeatIntervalMs: number(map, "heartbeat_interval_ms", 1, MAX_U32),
    lanes: number(map, "lanes", 1, 0xffff),
    freeBeats: flag(map, "free_beats"),
    peer: { instanceId, workerAddress: workerAddress.slice() },
  };
}

function decodeHeaders(map: ValueMap, limits: RequestLimits): Record<string, string> {
  const entries = Object.entries(map);
  if (entries.length > limits.maxHeaders) throw refuse("headers", `at most ${limits.maxHeaders} entries`);
  const headers: Record<string, string> = Object.create(null);
  for (const [name, value] of entries) {
    if (name.length > 256 || !HEADER_NAME.test(name)) throw refuse("headers", "lower-case token names");
    if (typeof value !== "string" || value.length > limits.maxHeaderChars || !HEADER_VALUE.test(value)) {
      throw refuse("headers", `values of at most ${limits.maxHeaderChars} characters without controls`);
    }
    headers[name] = value;
  }
  return headers;
}

function asMap(value: ValueType | undefined, name: string): ValueMap {
  const isMap = typeof value === "object" && value !== null && !Array.isArray(value) &&
    !(value instanceof Uint8Array);
  if (!isMap) throw refuse(name, "a map");
  return value as ValueMap;
}

function field(map: ValueMap, name: string): ValueType | undefined {
  return Object.hasOwn(map, name) ? map[name] : undefined;
}

function text(map: ValueMap, name: string, maxChars: number): string {
  const value = field(map, name);
  if (typeof value !== "string" || value.length === 0 || value.length > maxChars) {
    throw refuse(name, `text of 1 to ${maxChars} characters`);
  }
  return value;
}

function flag(map: ValueMap, name: string): boolean {
  const value = field(map, name);
  if (typeof value !== "boolean") throw refuse(name, "a boolean");
  return value;
}

function binary(map: ValueMap, name: string): Uint8Array {
  const value = field(map, name);
  if (!(value instanceof Uint8Array)) throw refuse(name, "bytes");
  return value;
}

function number(map: ValueMap, name: string, least: number, most: number): number {
  const value = u64(map, name);
  if (value < BigInt(least) || value > BigInt(most)) throw refuse(name, `${least} to ${most}`);
  return Number(value);
}

function u64(map: ValueMap, name: string): bigint {
  const value = field(map, name);
  const whole = typeof value === "bigint"
    ? value
    : Number.isSafeInteger(value)
    ? BigInt(value as number)
    : -1n;
  if (whole < 0n || whole > MAX_U64) throw refuse(name, "an unsigned 64-bit integer");
  return whole;
}

function refuse(name: string, allowed: string): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot decode a request: "${name}" must be ${allowed}`);
}
