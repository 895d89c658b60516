/**
 * Sending on a client's connection by the system call itself, past `node:net`.
 *
 * A descriptor number that belongs to someone else may be closed by them and given to another client by the kernel
 * between two of our sends. So only a descriptor of our own is ever used: the runtime hands out a duplicate
 * (`fdForIpc`), which stays this connection's until this file closes it, whatever happens to the original.
 *
 * There is one duplicate per connection, made for its first direct response and closed on the connection's `close`
 * event; the client sees the connection end only then.
 */
import type { Socket } from "node:net";
import type { DescriptorTable } from "./descriptor_table.ts";

const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const SHUT_RDWR = 2;
const SEND_FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL;

const SYMBOLS = {
  send: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
  shutdown: { parameters: ["i32", "i32"], result: "i32" },
  close: { parameters: ["i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** What libc offers; null where it cannot be loaded. */
let libc: Deno.DynamicLibrary<typeof SYMBOLS> | null | undefined;

/** Where the descriptors of this isolate are entered; null where nobody would outlive it to look. */
let table: DescriptorTable | null = null;

/** Has this isolate's descriptors entered in a table from now on; null: in none. While none is open. */
export function useDescriptorTable(shared: DescriptorTable | null): void {
  table = shared;
}

/** Closes what a dead isolate left in its table, so that the clients at the other end learn of it. */
export function closeAbandoned(left: DescriptorTable): void {
  const lib = loadLibc();
  if (lib === null) return;
  for (const descriptor of left.takeAll()) {
    lib.symbols.shutdown(descriptor, SHUT_RDWR);
    lib.symbols.close(descriptor);
  }
}

/** Enters a descriptor that this isolate owns from now on. False when there is no place for it: then it is closed. */
export function enterDescriptor(descriptor: number): boolean {
  if (table === null || table.add(descriptor)) return true;
  loadLibc()?.symbols.close(descriptor);
  return false;
}

/** The direct way of each connection that has had one. Weak: a connection that nobody holds takes its entry with it. */
const ways = new WeakMap<Socket, DirectSend>();

/** What is looked at of a socket: fields of the runtime's own. */
interface SocketWithHandle {
  readonly encrypted?: boolean;
  readonly _handle?: {
    /** Returns a new duplicate of the connection's descriptor. */
    fdForIpc?(): number;
  } | null;
}

/** The direct way to one connection. */
export class DirectSend {
  readonly #lib: Deno.DynamicLibrary<typeof SYMBOLS>;
  #descriptor: number;

  private constructor(lib: Deno.DynamicLibrary<typeof SYMBOLS>, descriptor: number) {
    this.#lib = lib;
    this.#descriptor = descriptor;
  }

  /**
   * The direct way to a connection that lives: opened for its first response, kept for those that follow, and closed
   * with the connection. Null where there is none.
   */
  static of(socket: Socket): DirectSend | null {
    const known = ways.get(socket);
    if (known !== undefined) return known.descriptor < 0 ? null : known;
    const opened = DirectSend.open(socket);
    if (opened === null) return null;
    ways.set(socket, opened);
    socket.once("close", () => opened.close());
    return opened;
  }

  /**
   * A direct way of one's own to a plain TCP socket, or null where there is none, as on one that has been destroyed. The
   * caller must `close` it; a response uses `of`.
   */
  static open(socket: Socket): DirectSend | null {
    const lib = loadLibc();
    const { encrypted, _handle: handle } = socket as SocketWithHandle;
    if (lib === null || encrypted === true || typeof handle?.fdForIpc !== "function") return null;
    let descriptor: number;
    try {
      descriptor = handle.fdForIpc();
    } catch {
      return null; // not this runtime's way to say so, but it would end the isolate
    }
    if (!Number.isInteger(descriptor) || descriptor < 0) return null;
    return enterDescriptor(descriptor) ? new DirectSend(lib, descriptor) : null;
  }

  /** The descriptor itself; -1 once it is closed. */
  get descriptor(): number {
    return this.#descriptor;
  }

  /**
   * Hands bytes to the kernel; returns how many it took, which may be fewer than given. 0 also stands for every
   * error: the socket's own write meets the same one and reports it.
   */
  send(bytes: Uint8Array<ArrayBuffer>): number {
    if (this.#descriptor < 0) return 0;
    const sent = Number(this.#lib.symbols.send(this.#descriptor, bytes, BigInt(bytes.length), SEND_FLAGS));
    return sent > 0 ? sent : 0;
  }

  /** Gives the descriptor back. Idempotent. */
  close(): void {
    const descriptor = this.#descriptor;
    if (descriptor < 0) return;
    this.#descriptor = -1;
    table?.remove(descriptor);
    this.#lib.symbols.close(descriptor);
  }
}

/** Never unloaded: its functions are the process's own. */
function loadLibc(): Deno.DynamicLibrary<typeof SYMBOLS> | null {
  if (libc !== undefined) return libc;
  try {
    libc = Deno.build.os === "linux" ? Deno.dlopen("libc.so.6", SYMBOLS) : null;
  } catch {
    libc = null;
  }
  return libc;
}
