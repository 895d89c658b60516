/**
 * Takes active messages over from UCX.
 *
 * The handler runs inside progress, on this isolate's thread. It only copies: header, data and reply endpoint go one
 * behind the other into an arena. After progress has returned, {@linkcode Receiver.deliver} hands them on, so that the
 * layers above run outside of UCX and may send. Two arenas take turns, since a send to the node's own address can bring
 * in a message while another is being handed on.
 */
import { AM_ID_BASE, KINDS } from "./kinds.ts";
import { HANDLER_WHOLE_MESSAGE, HandlerField, Layout, ReceiveAttribute } from "./layouts.ts";
import { mustStart, type UcxLibrary } from "./library.ts";
import { structure } from "./memory.ts";
import { UcsStatus } from "./status.ts";
import { addressOf, type ReceiveCallback, receiveCallback } from "./symbols.ts";

const INITIAL_ARENA_BYTES = 262_144;
/** An arena that grew beyond this is given up once it has been emptied. */
const MAX_KEPT_ARENA_BYTES = 8_388_608;
const PREFIX_BYTES = Layout.receiveParams.size;
const PREFIX_LONG = BigInt(PREFIX_BYTES);

/**
 * Takes one message. `replyEndpoint` is 0 when the sender did not offer one; it is a live endpoint only during the call.
 * The views are valid only during the call.
 */
export type ReceiveTarget = (
  kind: number,
  replyEndpoint: bigint,
  header: Uint8Array,
  payload: Uint8Array,
) => void;

/** Why a message was dropped here. */
export type DropReason = "too_large" | "rendezvous" | "receive_error";

interface Arena {
  bytes: Uint8Array<ArrayBuffer>;
  base: bigint;
  words: Uint32Array;
  longs: BigUint64Array;
  used: number;
  kinds: number[];
  headerBytes: number[];
  dataBytes: number[];
  offsets: number[];
}

/** See the head of this file. */
export class Receiver {
  readonly #memcpy: UcxLibrary["c"]["memcpy"];
  readonly #callback: ReceiveCallback;
  readonly #limit: number;
  readonly #onDrop: (reason: DropReason) => void;
  #filling: Arena = newArena(INITIAL_ARENA_BYTES);
  #spare: Arena = newArena(INITIAL_ARENA_BYTES);

  /** @param maxBytes largest header and data together; what is larger is dropped */
  constructor(library: UcxLibrary, maxBytes: number, onDrop: (reason: DropReason) => void) {
    this.#memcpy = library.c.memcpy;
    this.#limit = maxBytes;
    this.#onDrop = onDrop;
    this.#callback = receiveCallback((kind, header, headerBytes, data, dataBytes, parameters) => {
      try {
        return this.#take(kind, header, headerBytes, data, dataBytes, parameters);
      } catch {
        // Nothing may be thrown through native frames. What can fail here is growing the arena.
        this.#onDrop("receive_error");
        return UcsStatus.ok;
      }
    });
  }

  /** Sets the handlers of all kinds on a worker. */
  register(library: UcxLibrary, worker: bigint): void {
    for (let kind = 0; kind < KINDS; kind++) {
      const parameters = structure(Layout.handlerParams.size);
      const layout = Layout.handlerParams;
      const mask = HandlerField.id | HandlerField.flags | HandlerField.callback | HandlerField.argument;
      parameters.view.setBigUint64(layout.fieldMask, mask, true);
      parameters.view.setUint32(layout.id, AM_ID_BASE + kind, true);
      parameters.view.setUint32(layout.flags, HANDLER_WHOLE_MESSAGE, true);
      parameters.view.setBigUint64(
        layout.callback,
        BigInt(Deno.UnsafePointer.value(this.#callback.pointer)),
        true,
      );
      parameters.view.setBigUint64(layout.argument, BigInt(kind), true);
      mustStart(
        "cannot set a message handler",
        library.ucp.ucp_worker_set_am_recv_handler(worker, parameters.bytes),
      );
    }
  }

  /** Messages taken over and not handed on. */
  get pending(): number {
    return this.#filling.kinds.length;
  }

  /** Hands on what has been taken over, in order. Returns how many messages. */
  deliver(target: ReceiveTarget): number {
    const arena = this.#filling;
    const count = arena.kinds.length;
    if (count === 0) return 0;
    this.#filling = this.#spare;
    for (let i = 0; i < count; i++) {
      const at = arena.offsets[i]!;
      const hasReply = (arena.words[at >>> 2]! & ReceiveAttribute.replyEndpoint) !== 0;
      const start = at + PREFIX_BYTES;
      const middle = start + arena.headerBytes[i]!;
      target(
        arena.kinds[i]!,
        hasReply ? arena.longs[(at >>> 3) + 1]! : 0n,
        arena.bytes.subarray(start, middle),
        arena.bytes.subarray(middle, middle + arena.dataBytes[i]!),
      );
    }
    arena.used = 0;
    arena.kinds.length =
      arena.headerBytes.length =
      arena.dataBytes.length =
      arena.offsets.length =
        0;
    this.#spare = arena.bytes.length > MAX_KEPT_ARENA_BYTES ? newArena(INITIAL_ARENA_BYTES) : arena;
    return count;
  }

  /** Releases the handler. The worker has been destroyed, or will never make progress again. */
  close(): void {
    this.#callback.close();
  }

  #take(
    kind: number,
    header: Deno.PointerValue,
    headerBytes: number,
    data: Deno.PointerValue,
    dataBytes: number,
    parameters: Deno.PointerValue,
  ): number {
    if (headerBytes + dataBytes > this.#limit) {
      this.#onDrop("too_large");
      return UcsStatus.ok;
    }
    const arena = this.#filling;
    const at = arena.used;
    // Rounded up to 8, so that the prefix can be read through the wider views.
    const end = (at + PREFIX_BYTES + headerBytes + dataBytes + 7) & ~7;
    if (end > arena.bytes.length) growArena(arena, end);
    const target = arena.base + BigInt(at);
    this.#memcpy(target, parameters, PREFIX_LONG);
    if ((arena.words[at >>> 2]! & ReceiveAttribute.rendezvous) !== 0) {
      // The data pointer is a descriptor then. Whoever sends by rendezvous breaks the wire's rule.
      this.#onDrop("rendezvous");
      return UcsStatus.unsupported;
    }
    if (headerBytes > 0) this.#memcpy(target + PREFIX_LONG, header, BigInt(headerBytes));
    if (dataBytes > 0) this.#memcpy(target + BigInt(PREFIX_BYTES + headerBytes), data, BigInt(dataBytes));
    arena.used = end;
    arena.kinds.push(kind);
    arena.headerBytes.push(headerBytes);
    arena.dataBytes.push(dataBytes);
    arena.offsets.push(at);
    return UcsStatus.ok;
  }
}

function newArena(size: number): Arena {
  const bytes = new Uint8Array(size);
  return {
    bytes,
    base: addressOf(bytes),
    words: new Uint32Array(bytes.buffer),
    longs: new BigUint64Array(bytes.buffer),
    used: 0,
    kinds: [],
    headerBytes: [],
    dataBytes: [],
    offsets: [],
  };
}

/** Only the arena that is being filled grows, and no view of that one has been handed out. */
function growArena(arena: Arena, needed: number): void {
  const grown = newArena(Math.max(arena.bytes.length * 2, (needed + 7) & ~7));
  grown.bytes.set(arena.bytes.subarray(0, arena.used));
  arena.bytes = grown.bytes;
  arena.base = grown.base;
  arena.words = grown.words;
  arena.longs = grown.longs;
}
