/** What the TCP transport asks of a socket; tests put their own in its place. */

/** A connected stream socket. */
export interface Socket {
  read(into: Uint8Array<ArrayBuffer>): Promise<number | null>;
  /** May take a part only. */
  write(bytes: Uint8Array<ArrayBuffer>): Promise<number>;
  closeWrite(): Promise<void>;
  close(): void;
  setNoDelay(on: boolean): void;
  setKeepAlive(on: boolean): void;
  readonly remoteAddr: { readonly hostname: string; readonly port: number };
}

/** A listening socket. */
export interface SocketListener {
  accept(): Promise<Socket>;
  close(): void;
  readonly addr: { readonly hostname: string; readonly port: number };
}

/** Where sockets come from. */
export interface SocketSource {
  /** Rejects when the connection cannot be made, or `signal` fires first. */
  connect(hostname: string, port: number, signal: AbortSignal): Promise<Socket>;
  /** Throws when the address cannot be had. */
  listen(hostname: string, port: number): SocketListener;
}

/** The kernel's sockets. */
export const systemSockets: SocketSource = {
  connect: (hostname, port, signal) => Deno.connect({ hostname, port, signal }),
  listen: (hostname, port) => Deno.listen({ hostname, port }),
};

/** Small frames must not wait for an acknowledgement, and a vanished peer must be noticed. Best effort. */
export function tuneSocket(socket: Socket): void {
  try {
    socket.setNoDelay(true);
    socket.setKeepAlive(true);
  } catch {
    // The peer may have reset it already; reading will tell.
  }
}

/** Closes a socket that may be closed already. */
export function closeQuietly(socket: { close(): void }): void {
  try {
    socket.close();
  } catch {
    // Closed by the runtime or by us before: either way it is gone.
  }
}
