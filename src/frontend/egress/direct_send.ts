/**
 * Sending on a client's connection by the system call itself, past `node:net`.
 *
 * A descriptor number that belongs to someone else may be closed by them and given to another client by the kernel
 * between two of our sends. So only a descriptor of our own is ever used: the runtime hands out a duplicate
 * (`fdForIpc`), which stays this connection's until this file closes it, whatever happens to the original.
 */
import type { Socket } from "node:net";

const MSG_DONTWAIT = 0x40;
const MSG_NOSIGNAL = 0x4000;
const SEND_FLAGS = MSG_DONTWAIT | MSG_NOSIGNAL;

const SYMBOLS = {
  send: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
  close: { parameters: ["i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** What libc offers; null where it cannot be loaded. */
let libc: Deno.DynamicLibrary<typeof SYMBOLS> | null | undefined;

interface HandleWithDescriptor {
  /** Returns a new duplicate of the connection's descriptor. */
  fdForIpc?(): number;
}

/** The direct way to one connection. */
export class DirectSend {
  readonly #lib: Deno.DynamicLibrary<typeof SYMBOLS>;
  #descriptor: number;

  private constructor(lib: Deno.DynamicLibrary<typeof SYMBOLS>, descriptor: number) {
    this.#lib = lib;
    this.#descriptor = descriptor;
  }

  /** The direct way to a plain TCP socket, or null where there is none. The caller must `close` it. */
  static open(socket: Socket): DirectSend | null {
    const lib = loadLibc();
    const handle = (socket as Socket & { _handle?: HandleWithDescriptor | null })._handle;
    if (lib === null || handle === undefined || handle === null || typeof handle.fdForIpc !== "function") {
      return null;
    }
    const descriptor = handle.fdForIpc();
    return Number.isInteger(descriptor) && descriptor > 2 ? new DirectSend(lib, descriptor) : null;
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
    if (this.#descriptor < 0) return;
    this.#lib.symbols.close(this.#descriptor);
    this.#descriptor = -1;
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
