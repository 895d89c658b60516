/**
 * How many requests one connection may have open. The server reads whatever a client sends ahead and starts it all at
 * once, so that without a limit one client takes every place there is, and the time of the event loop with it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** No client in use sends this far ahead; those that send ahead at all wait for the first answers. */
export const MAX_OPEN_PER_CONNECTION = 64;

/** Counts the open requests of each connection. */
export class PipelineLimit {
  readonly #open = new WeakMap<Socket, number>();

  /** Whether a request may go on. If not, its connection is closed: its answer would have to wait for all the others. */
  admits(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    // What had been read of a connection before it was closed is still handed out.
    if (socket.destroyed) return false;
    const open = (this.#open.get(socket) ?? 0) + 1;
    if (open > MAX_OPEN_PER_CONNECTION) {
      socket.destroy();
      return false;
    }
    this.#open.set(socket, open);
    response.once("close", () => this.#open.set(socket, this.#open.get(socket)! - 1));
    return true;
  }
}
