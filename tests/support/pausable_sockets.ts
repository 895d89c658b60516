/** Real sockets whose accepted ends can be told to stop reading. */
import { type Socket, type SocketSource, systemSockets } from "../../transports/tcp/socket.ts";

/** Wraps the system's sockets; accepted sockets are numbered from 1 in order of acceptance. */
export class PausableSockets implements SocketSource {
  readonly #pauses = new Map<number, PromiseWithResolvers<void>>();
  #accepted = 0;

  connect(hostname: string, port: number, signal: AbortSignal): Promise<Socket> {
    return systemSockets.connect(hostname, port, signal);
  }

  listen(hostname: string, port: number): ReturnType<SocketSource["listen"]> {
    const listener = systemSockets.listen(hostname, port);
    return {
      addr: listener.addr,
      close: () => listener.close(),
      accept: async () => this.#wrap(await listener.accept(), ++this.#accepted),
    };
  }

  /** From its next read on, the accepted socket of that number reads nothing; the result lets it go on. */
  pause(accepted: number): () => void {
    const pause = Promise.withResolvers<void>();
    this.#pauses.set(accepted, pause);
    return () => {
      this.#pauses.delete(accepted);
      pause.resolve();
    };
  }

  #wrap(socket: Socket, number: number): Socket {
    return {
      remoteAddr: socket.remoteAddr,
      read: async (into) => {
        const count = await socket.read(into);
        await this.#pauses.get(number)?.promise;
        return count;
      },
      write: (bytes) => socket.write(bytes),
      closeWrite: () => socket.closeWrite(),
      close: () => {
        this.#pauses.get(number)?.resolve();
        socket.close();
      },
      setNoDelay: (on) => socket.setNoDelay(on),
      setKeepAlive: (on) => socket.setKeepAlive(on),
    };
  }
}
