/** Status codes of UCX (`ucs_status_t`): 0 is done, 1 is in progress, negative is an error. The same in 1.13 to 1.22. */

/** The codes this transport compares with. */
export const UcsStatus = Object.freeze({
  ok: 0,
  inProgress: 1,
  unreachable: -6,
  noDevice: -14,
  busy: -15,
  canceled: -16,
  unsupported: -22,
  connectionReset: -25,
  endpointTimeout: -80,
});

/** The lowest value that a returned pointer may stand for (`UCS_ERR_LAST`): pointers at or above it are errors. */
const LAST_ERROR = -100n;

const NAMES: Readonly<Record<number, string>> = Object.freeze({
  [0]: "ok",
  [1]: "in progress",
  [-1]: "no message",
  [-2]: "no resource",
  [-3]: "input/output error",
  [-4]: "out of memory",
  [-5]: "invalid parameter",
  [-6]: "destination is unreachable",
  [-7]: "invalid address",
  [-8]: "not implemented",
  [-9]: "message truncated",
  [-10]: "no progress",
  [-11]: "buffer too small",
  [-12]: "no such element",
  [-13]: "some connects failed",
  [-14]: "no such device",
  [-15]: "busy",
  [-16]: "cancelled",
  [-17]: "shared memory segment error",
  [-18]: "already exists",
  [-19]: "out of range",
  [-20]: "timed out",
  [-21]: "limit exceeded",
  [-22]: "not supported",
  [-23]: "rejected",
  [-24]: "not connected",
  [-25]: "connection reset by peer",
  [-80]: "endpoint timeout",
});

/** Name of a status, for messages and logs. */
export function statusName(status: number): string {
  const name = NAMES[status];
  if (name !== undefined) return name;
  if (status <= -40 && status > -60) return `link failure ${status}`;
  if (status <= -60 && status > -90) return `endpoint failure ${status}`;
  return `status ${status}`;
}

/** The status inside a returned `ucs_status_ptr_t` that is an error, else 0 (done at once, or a request pointer). */
export function errorOfPointer(pointer: bigint): number {
  const signed = BigInt.asIntN(64, pointer);
  return signed < 0n && signed >= LAST_ERROR ? Number(signed) : 0;
}
