/**
 * Layouts of the UCX structures that we pass, for 64-bit little-endian Linux, UCX 1.13 to 1.22.
 *
 * Every structure starts with a mask that says which fields are set, so UCX appends fields and never moves one: offsets
 * are the same in the whole range, only sizes grow. Checked with the compiler against the headers of 1.13.1, 1.14.1,
 * 1.16.0, 1.18.1 and 1.22.0. Structures are allocated at the largest size, the rest zero.
 */
import { TokenplaneError } from "../../src/errors.ts";

/** A version of the library, as `ucp_get_version` reports it. */
export interface UcxVersion {
  readonly major: number;
  readonly minor: number;
  readonly release: number;
}

/** Oldest and newest minor version (of major 1) whose headers were compared with these layouts. */
export const SUPPORTED_MINORS = Object.freeze({ first: 13, last: 22 });

/** Offsets of the structures, in bytes, and the sizes to allocate. */
export const Layout = Object.freeze({
  contextParams: { size: 88, fieldMask: 0, features: 8, mtWorkersShared: 48 },
  workerParams: { size: 200, fieldMask: 0, threadMode: 8 },
  workerAttr: { size: 128, fieldMask: 0, address: 16, addressLength: 24, maxAmHeader: 32 },
  endpointParams: {
    size: 128,
    fieldMask: 0,
    address: 8,
    errorMode: 16,
    errorHandler: 24,
    errorHandlerArgument: 32,
  },
  handlerParams: { size: 32, fieldMask: 0, id: 8, flags: 12, callback: 16, argument: 24 },
  requestParams: { size: 96, mask: 0, flags: 4 },
  receiveParams: { size: 16, attributes: 0, replyEndpoint: 8 },
  pollDescriptor: { size: 8, descriptor: 0, events: 4 },
});

/** Bits of `ucp_params_t`. */
export const ContextField = Object.freeze({ features: 1n << 0n, mtWorkersShared: 1n << 5n });
/** Bits of `ucp_params_t.features`. */
export const Feature = Object.freeze({ rma: 1n << 1n, wakeup: 1n << 4n, activeMessages: 1n << 6n });
/** Bits of `ucp_worker_params_t`; thread mode 0 is "single". */
export const WorkerField = Object.freeze({ threadMode: 1n << 0n });
/** Bits of `ucp_worker_attr_t`. */
export const WorkerAttribute = Object.freeze({ address: 1n << 1n, maxAmHeader: 1n << 3n });
/** Bits of `ucp_ep_params_t`, and its error modes. */
export const EndpointField = Object.freeze({
  remoteAddress: 1n << 0n,
  errorMode: 1n << 1n,
  errorHandler: 1n << 2n,
});
/** Values of `ucp_err_handling_mode_t`. */
export const ErrorMode = Object.freeze({ none: 0, peer: 1 });
/** Bits of `ucp_am_handler_param_t`. */
export const HandlerField = Object.freeze({
  id: 1n << 0n,
  flags: 1n << 1n,
  callback: 1n << 2n,
  argument: 1n << 3n,
});
/** The handler takes whole messages, never fragments. */
export const HANDLER_WHOLE_MESSAGE = 1;
/** Bits of `ucp_request_param_t.op_attr_mask`. */
export const RequestField = Object.freeze({ flags: 1 << 4 });
/** Bits of the flags of `ucp_am_send_nbx`. */
export const SendFlag = Object.freeze({ reply: 1 << 0, eager: 1 << 1 });
/** Bits of `ucp_am_recv_param_t.recv_attr`. */
export const ReceiveAttribute = Object.freeze({ replyEndpoint: 1 << 0, rendezvous: 1 << 17 });
/** Bits of the flags of `ucp_ep_close_nbx`; without `force` the endpoint is flushed first. */
export const CloseFlag = Object.freeze({ force: 1 << 0 });

/** Throws `invalid_config` unless the layouts above hold for this library, naming what is supported. */
export function checkVersion(version: UcxVersion): void {
  const { first, last } = SUPPORTED_MINORS;
  if (version.major === 1 && version.minor >= first && version.minor <= last) return;
  throw new TokenplaneError(
    "invalid_config",
    `UCX not available: version ${version.major}.${version.minor}.${version.release} is installed, ` +
      `1.${first} to 1.${last} are supported`,
    { scope: "process" },
  );
}

/** Throws `invalid_config` on a machine for which the layouts do not hold. */
export function checkPlatform(os: string, arch: string): void {
  if (os === "linux" && (arch === "x86_64" || arch === "aarch64")) return;
  throw new TokenplaneError(
    "invalid_config",
    `UCX not available: it needs 64-bit Linux, this is "${os}" on "${arch}"`,
    { scope: "process" },
  );
}
