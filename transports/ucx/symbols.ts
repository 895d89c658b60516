/**
 * The foreign functions. Addresses and sizes cross as `usize`, a bigint: Deno's fast calls take those without
 * allocating, where a pointer object would cost an allocation and a number would leave the fast path.
 *
 * `ucs_status_t` is one byte wide (a packed enumeration), so statuses are `i8`.
 *
 * Any of these may run one of our callbacks before it returns; a send does, to the node's own address.
 */

const UCP_SYMBOLS = {
  ucp_get_version: { parameters: ["buffer", "buffer", "buffer"], result: "void" },
  ucp_init_version: {
    parameters: ["u32", "u32", "buffer", "usize", "buffer"],
    result: "i8",
  },
  ucp_cleanup: { parameters: ["usize"], result: "void" },
  ucp_worker_create: { parameters: ["usize", "buffer", "buffer"], result: "i8" },
  ucp_worker_destroy: { parameters: ["usize"], result: "void" },
  ucp_worker_query: { parameters: ["usize", "buffer"], result: "i8" },
  ucp_worker_release_address: { parameters: ["usize", "usize"], result: "void" },
  ucp_worker_get_efd: { parameters: ["usize", "buffer"], result: "i8" },
  ucp_worker_progress: { parameters: ["usize"], result: "u32" },
  ucp_worker_arm: { parameters: ["usize"], result: "i8" },
  ucp_worker_signal: { parameters: ["usize"], result: "i8" },
  ucp_worker_set_am_recv_handler: { parameters: ["usize", "buffer"], result: "i8" },
  ucp_ep_create: { parameters: ["usize", "buffer", "buffer"], result: "i8" },
  ucp_ep_flush_nbx: { parameters: ["usize", "buffer"], result: "usize" },
  ucp_ep_close_nbx: { parameters: ["usize", "buffer"], result: "usize" },
  ucp_am_send_nbx: {
    parameters: ["usize", "u32", "usize", "usize", "usize", "usize", "usize"],
    result: "usize",
  },
  ucp_request_check_status: { parameters: ["usize"], result: "i8" },
  ucp_request_free: { parameters: ["usize"], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

const LIBC_SYMBOLS = {
  memcpy: { parameters: ["usize", "pointer", "usize"], result: "void" },
  getenv: { parameters: ["buffer"], result: "pointer" },
  poll: { parameters: ["buffer", "u64", "i32"], result: "i32", nonblocking: true },
} as const satisfies Deno.ForeignLibraryInterface;

const RECEIVE_CALLBACK = {
  // Argument, header, header length, data, data length, ucp_am_recv_param_t. Numbers and pointers are the cheapest way
  // in. The lengths are wider in C, but an eager message is far below 4 GiB, and a rendezvous, which could be longer,
  // is refused without a look at them.
  parameters: ["u32", "pointer", "u32", "pointer", "u32", "pointer"],
  result: "i8",
} as const satisfies Deno.UnsafeCallbackDefinition;

const ERROR_CALLBACK = {
  // argument, endpoint, status
  parameters: ["usize", "usize", "i8"],
  result: "void",
} as const satisfies Deno.UnsafeCallbackDefinition;

/** Handle of an opened libucp. */
export type UcpLibrary = Deno.DynamicLibrary<typeof UCP_SYMBOLS>;
/** Handle of the C library. */
export type CLibrary = Deno.DynamicLibrary<typeof LIBC_SYMBOLS>;
/** A receive handler that native code can call. */
export type ReceiveCallback = Deno.UnsafeCallback<typeof RECEIVE_CALLBACK>;
/** An endpoint error handler that native code can call. */
export type ErrorCallback = Deno.UnsafeCallback<typeof ERROR_CALLBACK>;

/** Opens libucp under the given name; throws what `Deno.dlopen` throws. */
export function openUcp(name: string): UcpLibrary {
  return Deno.dlopen(name, UCP_SYMBOLS);
}

/** Opens the C library. */
export function openC(): CLibrary {
  return Deno.dlopen("libc.so.6", LIBC_SYMBOLS);
}

/**
 * Makes a receive handler. It is called on the thread that runs progress, that is this isolate's own, so it needs no
 * thread-safe callback. Whatever it throws must be caught inside: an exception cannot cross native frames.
 */
export function receiveCallback(
  handler: (
    argument: number,
    header: Deno.PointerValue,
    headerBytes: number,
    data: Deno.PointerValue,
    dataBytes: number,
    parameters: Deno.PointerValue,
  ) => number,
): ReceiveCallback {
  return new Deno.UnsafeCallback(RECEIVE_CALLBACK, handler);
}

/** Makes an endpoint error handler; same rules. */
export function errorCallback(
  handler: (argument: bigint, endpoint: bigint, status: number) => void,
): ErrorCallback {
  return new Deno.UnsafeCallback(ERROR_CALLBACK, handler);
}

/** Address of a buffer that native code may keep using for as long as the buffer is referenced here. */
export function addressOf(buffer: Uint8Array<ArrayBuffer>): bigint {
  return BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(buffer)));
}
