/**
 * The JSON of the streaming control plane. u64 values are bare integers on the wire and bigints here.
 *
 * | message | shape |
 * |---|---|
 * | `_anchor_attach` | `{handle, session_id, stream_cancel_handle, supported_transport_keys}` |
 * | its answer | `{"Ok":{streaming_transport_key, heartbeat_interval_ms, routing_session_id, initial_credit, slot_byte_budget}}` or `{"Err":{reason}}` |
 * | `_anchor_detach`, `_anchor_finalize`, `_anchor_cancel` | `{handle}` |
 * | `_stream_cancel` | `{sender_stream_id}` |
 * | `_stream_stop` | `{handle, routing_session_id}` |
 */
import { TokenplaneError } from "../errors.ts";
import type { AttachGrant } from "../mux/link.ts";
import type { Handle } from "../stream.ts";

/** The transport key of this mux, as attaches negotiate it. */
export const MUX_TRANSPORT_KEY = "messenger-mux-v1";

const U64_MAX = 0xffff_ffff_ffff_ffffn;
const MAX_TRANSPORT_KEYS = 64;

/** What an attach asks for. */
export interface AttachRequest {
  readonly handle: Handle;
  readonly senderStreamId: bigint;
  readonly supportedTransportKeys: readonly string[];
}

/** What a granted attach is answered with. */
export interface AttachAnswer extends AttachGrant {
  readonly heartbeatIntervalMs: number;
}

/** An attach; `streamId` and `workerId` name the sender in a later `_stream_cancel`. */
export function writeAttachRequest(handle: Handle, streamId: bigint, workerId: bigint): unknown {
  return {
    handle: { hi: handle.hi, lo: handle.lo },
    session_id: streamId,
    stream_cancel_handle: { hi: workerId, lo: streamId },
    supported_transport_keys: [MUX_TRANSPORT_KEY],
  };
}

/** Reads an attach; throws `protocol` naming the field that is wrong. */
export function readAttachRequest(input: unknown): AttachRequest {
  const fields = record(input, "an attach");
  const cancel = handleOf(fields["stream_cancel_handle"], "stream_cancel_handle");
  const keys = fields["supported_transport_keys"] ?? [];
  if (
    !Array.isArray(keys) || keys.length > MAX_TRANSPORT_KEYS || keys.some((key) => typeof key !== "string")
  ) {
    throw malformed("supported_transport_keys is not a short list of strings");
  }
  return {
    handle: handleOf(fields["handle"], "handle"),
    senderStreamId: cancel.lo,
    supportedTransportKeys: keys,
  };
}

/** The answer to an attach: the grant, or why it is refused. */
export function writeAttachResponse(answer: AttachAnswer | { readonly refused: string }): unknown {
  if ("refused" in answer) return { Err: { reason: answer.refused } };
  return {
    Ok: {
      streaming_transport_key: MUX_TRANSPORT_KEY,
      heartbeat_interval_ms: answer.heartbeatIntervalMs,
      routing_session_id: answer.routingSessionId,
      initial_credit: answer.initialCredit,
      slot_byte_budget: answer.slotByteBudget,
    },
  };
}

/** Reads the answer to an attach; throws `remote` when it was refused or offers another transport. */
export function readAttachResponse(input: unknown): AttachGrant {
  const fields = record(input, "an attach answer");
  if (fields["Err"] !== undefined) {
    const reason = record(fields["Err"], "an attach refusal")["reason"];
    throw new TokenplaneError("remote", `Cannot attach: ${String(reason).slice(0, 200)}`);
  }
  const ok = record(fields["Ok"], "an attach grant");
  if (ok["streaming_transport_key"] !== MUX_TRANSPORT_KEY) {
    throw new TokenplaneError("remote", `Cannot attach: the peer does not offer ${MUX_TRANSPORT_KEY}`);
  }
  return {
    routingSessionId: u64(ok["routing_session_id"] ?? 0, "routing_session_id"),
    initialCredit: u32(ok["initial_credit"] ?? 0, "initial_credit"),
    slotByteBudget: u32(ok["slot_byte_budget"] ?? 0, "slot_byte_budget"),
  };
}

/** Reads `{handle}`. Throws `protocol`. */
export function readHandle(input: unknown): Handle {
  return handleOf(record(input, "an anchor message")["handle"], "handle");
}

/** Tells a sender, by its own stream id, that nobody wants its stream any more. */
export function writeCancel(streamId: bigint): unknown {
  return { sender_stream_id: streamId };
}

/** Reads a cancel. Throws `protocol`. */
export function readSenderStreamId(input: unknown): bigint {
  return u64(record(input, "a cancel")["sender_stream_id"], "sender_stream_id");
}

/** Tells a sender, by the handle of its ticket, that nobody wants its stream any more. */
export function writeStop(handle: Handle, routingSessionId: bigint): unknown {
  return { handle: { hi: handle.hi, lo: handle.lo }, routing_session_id: routingSessionId };
}

/** Reads a stop. Throws `protocol`. */
export function readStop(input: unknown): { readonly handle: Handle; readonly routingSessionId: bigint } {
  const fields = record(input, "a stop");
  return {
    handle: handleOf(fields["handle"], "handle"),
    routingSessionId: u64(fields["routing_session_id"], "routing_session_id"),
  };
}

function handleOf(value: unknown, name: string): Handle {
  const fields = record(value, name);
  return { hi: u64(fields["hi"], `${name}.hi`), lo: u64(fields["lo"], `${name}.lo`) };
}

function record(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw malformed(`${what} is not an object`);
  }
  return value as Record<string, unknown>;
}

function u64(value: unknown, name: string): bigint {
  if (typeof value === "bigint" && value >= 0n && value <= U64_MAX) return value;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 0) return BigInt(value);
  throw malformed(`${name} is not an unsigned 64-bit integer`);
}

function u32(value: unknown, name: string): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff) {
    return value;
  }
  throw malformed(`${name} is not an unsigned 32-bit integer`);
}

function malformed(why: string): TokenplaneError {
  return new TokenplaneError("protocol", `Cannot read a stream control message: ${why}`, { wire: why });
}
