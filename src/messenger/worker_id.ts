/** A node's identity: an instance id (UUID v4, new at every start) and the worker id derived from it. */
import { createXXHash3 } from "hash-wasm";
import type { InstanceId } from "../../transports/contract.ts";
import { TokenplaneError } from "../errors.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
// Compiling the hash is asynchronous, using it is not: done once, at load.
const hasher = await createXXHash3();

/** Whether `text` is a UUID in lower-case hyphenated form. */
export function isInstanceId(text: unknown): text is InstanceId {
  return typeof text === "string" && UUID.test(text);
}

/** The 16 bytes of an instance id. Throws `invalid_request` when it is no lower-case UUID. */
export function instanceIdBytes(instanceId: InstanceId): Uint8Array {
  if (!isInstanceId(instanceId)) {
    throw new TokenplaneError(
      "invalid_request",
      `Cannot use instance id "${instanceId}": it is no lower-case UUID`,
    );
  }
  const bytes = new Uint8Array(16);
  const hex = instanceId.replaceAll("-", "");
  for (let i = 0; i < 16; i++) bytes[i] = Number.parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** xxh3-64 (seed 0) of the instance id's bytes. Throws `invalid_request` as {@linkcode instanceIdBytes} does. */
export function workerIdOf(instanceId: InstanceId): bigint {
  hasher.init();
  hasher.update(instanceIdBytes(instanceId));
  return BigInt(`0x${hasher.digest("hex")}`);
}

/** A new instance id. One whose worker id would be 0 is never used: 0 means "nobody". */
export function newInstanceId(): InstanceId {
  for (;;) {
    const candidate = crypto.randomUUID();
    if (workerIdOf(candidate) !== 0n) return candidate;
  }
}
