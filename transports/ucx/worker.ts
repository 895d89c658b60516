/** The UCX context and its one worker: made at start, destroyed last. Everything here runs outside the hot path. */
import {
  CloseFlag,
  ContextField,
  EndpointField,
  ErrorMode,
  Feature,
  Layout,
  RequestField,
  WorkerAttribute,
  WorkerField,
} from "./layouts.ts";
import { mustStart, startFailure, type UcxLibrary } from "./library.ts";
import { structure } from "./memory.ts";
import { errorOfPointer, UcsStatus } from "./status.ts";

/** The API version whose structures we pass; a newer library accepts it. */
const API_MAJOR = 1;
const API_MINOR = 13;

/** What the rest of the transport needs to know of the worker. */
export interface UcxWorker {
  readonly context: bigint;
  readonly worker: bigint;
  /** Packed address, to be told to peers. */
  readonly address: Uint8Array<ArrayBuffer>;
  /** Readable when an armed worker has something to do. */
  readonly eventDescriptor: number;
  /** Largest active-message header, in bytes. */
  readonly maxHeaderBytes: number;
  /** Error mode of endpoints: see {@linkcode chooseErrorMode}. */
  readonly errorMode: number;
}

/**
 * Makes context and worker and checks that another worker could be reached. Throws `invalid_config` with one line; what
 * had been made is destroyed then.
 */
export function createWorker(library: UcxLibrary): UcxWorker {
  const context = createContext(library);
  let worker = 0n;
  try {
    worker = createBareWorker(library, context);
    const { address, maxHeaderBytes } = queryWorker(library, worker);
    const descriptor = new Int32Array(1);
    mustStart(
      "no event descriptor",
      library.ucp.ucp_worker_get_efd(worker, new Uint8Array(descriptor.buffer)),
    );
    const errorMode = chooseErrorMode(library, context, worker);
    return { context, worker, address, maxHeaderBytes, errorMode, eventDescriptor: descriptor[0]! };
  } catch (caught) {
    if (worker !== 0n) library.ucp.ucp_worker_destroy(worker);
    library.ucp.ucp_cleanup(context);
    throw caught;
  }
}

/** Destroys both. Every endpoint has been closed. */
export function destroyWorker(library: UcxLibrary, worker: UcxWorker): void {
  library.ucp.ucp_worker_destroy(worker.worker);
  library.ucp.ucp_cleanup(worker.context);
}

function createContext(library: UcxLibrary): bigint {
  const parameters = structure(Layout.contextParams.size);
  const { fieldMask, features, mtWorkersShared } = Layout.contextParams;
  parameters.view.setBigUint64(fieldMask, ContextField.features | ContextField.mtWorkersShared, true);
  parameters.view.setBigUint64(features, Feature.activeMessages | Feature.rma | Feature.wakeup, true);
  parameters.view.setInt32(mtWorkersShared, 1, true);
  const out = new BigUint64Array(1);
  mustStart(
    "cannot make a context",
    // Without a configuration object UCX reads its environment.
    library.ucp.ucp_init_version(API_MAJOR, API_MINOR, parameters.bytes, 0n, new Uint8Array(out.buffer)),
  );
  return out[0]!;
}

function createBareWorker(library: UcxLibrary, context: bigint): bigint {
  const parameters = structure(Layout.workerParams.size);
  parameters.view.setBigUint64(Layout.workerParams.fieldMask, WorkerField.threadMode, true);
  const out = new BigUint64Array(1);
  mustStart(
    "cannot make a worker",
    library.ucp.ucp_worker_create(context, parameters.bytes, new Uint8Array(out.buffer)),
  );
  return out[0]!;
}

function queryWorker(
  library: UcxLibrary,
  worker: bigint,
): { address: Uint8Array<ArrayBuffer>; maxHeaderBytes: number } {
  const attributes = structure(Layout.workerAttr.size);
  const layout = Layout.workerAttr;
  attributes.view.setBigUint64(
    layout.fieldMask,
    WorkerAttribute.address | WorkerAttribute.maxAmHeader,
    true,
  );
  mustStart("cannot query the worker", library.ucp.ucp_worker_query(worker, attributes.bytes));
  const packed = attributes.view.getBigUint64(layout.address, true);
  const length = Number(attributes.view.getBigUint64(layout.addressLength, true));
  const address = new Uint8Array(length);
  new Deno.UnsafePointerView(Deno.UnsafePointer.create(packed)!).copyInto(address);
  library.ucp.ucp_worker_release_address(worker, packed);
  return { address, maxHeaderBytes: Number(attributes.view.getBigUint64(layout.maxAmHeader, true)) };
}

/**
 * Finds out, on another worker made for it, whether endpoints can be made at all, and whether UCX watches the peer for
 * us.
 *
 * Shared memory alone has no failure detection: an endpoint in error mode "peer" cannot be made then, but one in mode
 * "none" can. A set of transports that cannot wire up (RC alone) fails in both.
 */
function chooseErrorMode(library: UcxLibrary, context: bigint, worker: bigint): number {
  const other = createBareWorker(library, context);
  try {
    const { address } = queryWorker(library, other);
    let status: number = UcsStatus.ok;
    for (const mode of [ErrorMode.peer, ErrorMode.none]) {
      status = tryEndpoint(library, worker, address, mode);
      if (status === UcsStatus.ok) return mode;
    }
    throw startFailure("its transports cannot reach another worker", status);
  } finally {
    library.ucp.ucp_worker_destroy(other);
  }
}

function tryEndpoint(
  library: UcxLibrary,
  worker: bigint,
  address: Uint8Array<ArrayBuffer>,
  errorMode: number,
): number {
  const out = new BigUint64Array(1);
  const parameters = endpointParameters(address, errorMode, 0n);
  const status = library.ucp.ucp_ep_create(worker, parameters.bytes, new Uint8Array(out.buffer));
  if (status !== UcsStatus.ok) return status;
  const close = structure(Layout.requestParams.size);
  if (errorMode === ErrorMode.peer) {
    close.view.setUint32(Layout.requestParams.mask, RequestField.flags, true);
    close.view.setUint32(Layout.requestParams.flags, CloseFlag.force, true);
  }
  const request = library.ucp.ucp_ep_close_nbx(out[0]!, close.bytes);
  if (request !== 0n && errorOfPointer(request) === 0) {
    for (let round = 0; round < 1_000; round++) {
      library.ucp.ucp_worker_progress(worker);
      if (library.ucp.ucp_request_check_status(request) !== UcsStatus.inProgress) break;
    }
    library.ucp.ucp_request_free(request);
  }
  return UcsStatus.ok;
}

/** Parameters of `ucp_ep_create`; `handler` is the native address of the error callback, 0 for none. */
export function endpointParameters(
  address: Uint8Array<ArrayBuffer>,
  errorMode: number,
  handler: bigint,
): { bytes: Uint8Array<ArrayBuffer>; address: Uint8Array<ArrayBuffer> } {
  const parameters = structure(Layout.endpointParams.size);
  const layout = Layout.endpointParams;
  let mask = EndpointField.remoteAddress | EndpointField.errorMode;
  parameters.view.setBigUint64(
    layout.address,
    BigInt(Deno.UnsafePointer.value(Deno.UnsafePointer.of(address))),
    true,
  );
  parameters.view.setUint32(layout.errorMode, errorMode, true);
  if (handler !== 0n) {
    mask |= EndpointField.errorHandler;
    parameters.view.setBigUint64(layout.errorHandler, handler, true);
  }
  parameters.view.setBigUint64(layout.fieldMask, mask, true);
  return { bytes: parameters.bytes, address };
}
