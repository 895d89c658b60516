/** Real sockets whose dialled ends a test can close under the transport's feet. */
import { closeQuietly, type Socket, type SocketSource, systemSockets } from "../../transports/tcp/socket.ts";

/** Wraps the system's sockets and remembers where each was dialled to. */
export class CuttableSockets implements SocketSource {
  readonly #dialled = new Map<Socket, number>();

  async connect(hostname: string, port: number, signal: AbortSignal): Promise<Socket> {
    const socket = await systemSockets.connect(hostname, port, signal);
    this.#dialled.set(socket, port);
    return socket;
  }

  listen(hostname: string, port: number): ReturnType<SocketSource["listen"]> {
    return systemSockets.listen(hostname, port);
  }

  /** Closes every connection dialled to that port; how many. */
  cut(port: number): number {
    let count = 0;
    for (const [socket, to] of this.#dialled) {
      if (to !== port) continue;
      this.#dialled.delete(socket);
      closeQuietly(socket);
      count++;
    }
    return count;
  }
}
