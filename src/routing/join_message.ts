/**
 * How a worker speaks to its frontends about itself: it joins (`_tp_join`, JSON), and leaves (`_tp_leave`).
 *
 * | field of a join | |
 * |---|---|
 * | `peer_info` | `{instance_id, worker_address: [bytes]}` |
 * | `models` | list of `{id, created, owned_by}` |
 * | `engine` | name, optional |
 * | `capacity` | requests at one time; 0 or absent: no limit |
 * | `virtual_workers` | logical workers in it, each with a cache of its own; absent: 1 |
 * | `by_address` | true: over a connection made for this join alone, whose end says nothing of the worker; optional |
 */
import { TokenplaneError } from "../errors.ts";
import { type PeerInfo, peerInfoFromJson, peerInfoToJson } from "../messenger/peer_info.ts";
import type { ModelCard, WorkerInfo } from "./worker.ts";

/** A frontend's handler: a worker is there, and goes on to be. */
export const JOIN_HANDLER = "_tp_join";
/** A frontend's handler: the calling worker takes no more requests. */
export const LEAVE_HANDLER = "_tp_leave";

/** Longest model name, in UTF-16 units. */
export const MAX_MODEL_CHARS = 256;
/** Models that one worker may serve. */
const MAX_MODELS = 256;
const MAX_NAME_CHARS = 128;
const MAX_CAPACITY = 1_000_000;
/** Logical workers in one. */
export const MAX_VIRTUAL_WORKERS = 1_024;
// deno-lint-ignore no-control-regex
const CONTROL = /[\x00-\x1f\x7f]/;

/** A worker's offer and where it listens. */
export interface JoinMessage {
  readonly peer: PeerInfo;
  readonly worker: WorkerInfo;
  /** Over a connection made for this join alone. */
  readonly isByAddress: boolean;
}

/** A join as JSON. */
export function writeJoinMessage(
  peer: PeerInfo,
  worker: Omit<WorkerInfo, "instanceId">,
  isByAddress: boolean,
): unknown {
  return {
    peer_info: peerInfoToJson(peer),
    models: worker.models.map(({ id, created, ownedBy }) => ({ id, created, owned_by: ownedBy })),
    engine: worker.engine,
    capacity: worker.capacity,
    ...(worker.virtualWorkers > 1 ? { virtual_workers: worker.virtualWorkers } : {}),
    ...(isByAddress ? { by_address: true } : {}),
  };
}

/** Reads and bounds a join. Throws `protocol` or `too_large`. */
export function readJoinMessage(input: unknown): JoinMessage {
  const fields = asObject(input, "the message");
  const peer = peerInfoFromJson(fields["peer_info"]);
  const { models } = fields;
  if (!Array.isArray(models)) throw refuse('"models" must be a list');
  if (models.length > MAX_MODELS) {
    throw refuse(`"models" has ${models.length} entries; at most ${MAX_MODELS}`);
  }
  const engine = fields["engine"] === undefined ? "" : text(fields["engine"], "engine", MAX_NAME_CHARS, 0);
  const capacity = number(fields["capacity"] ?? 0, "capacity", MAX_CAPACITY);
  const virtualWorkers = number(fields["virtual_workers"] ?? 1, "virtual_workers", MAX_VIRTUAL_WORKERS);
  if (virtualWorkers === 0) throw refuse('"virtual_workers" must be at least 1');
  return {
    peer,
    worker: { instanceId: peer.instanceId, models: models.map(readModel), engine, capacity, virtualWorkers },
    isByAddress: fields["by_address"] === true,
  };
}

function readModel(input: unknown): ModelCard {
  const fields = asObject(input, "a model");
  return {
    id: text(fields["id"], "id", MAX_MODEL_CHARS, 1),
    created: number(fields["created"] ?? 0, "created", Number.MAX_SAFE_INTEGER),
    ownedBy: text(fields["owned_by"] ?? "", "owned_by", MAX_NAME_CHARS, 0),
  };
}

function asObject(input: unknown, what: string): Record<string, unknown> {
  if (typeof input !== "object" || input === null || Array.isArray(input)) {
    throw refuse(`${what} must be an object`);
  }
  return input as Record<string, unknown>;
}

function text(value: unknown, name: string, maxChars: number, minChars: number): string {
  const isText = typeof value === "string" && value.length >= minChars && value.length <= maxChars;
  if (!isText || CONTROL.test(value)) {
    throw refuse(`"${name}" must be text of ${minChars} to ${maxChars} characters without controls`);
  }
  return value;
}

function number(value: unknown, name: string, max: number): number {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0 || value > max) {
    throw refuse(`"${name}" must be a whole number from 0 to ${max}`);
  }
  return value;
}

function refuse(why: string): TokenplaneError {
  const message = `Cannot take a worker in: ${why}`;
  return new TokenplaneError("protocol", message, { wire: message });
}
