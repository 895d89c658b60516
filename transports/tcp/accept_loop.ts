/** Accepts connections for as long as the listener lives, and does not spin when accepting fails. */
import type { Clock } from "../../src/clock.ts";
import type { Socket, SocketListener } from "./socket.ts";

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 1_000;

/** What an {@linkcode AcceptLoop} tells its owner. */
export interface AcceptEvents {
  onAccepted(socket: Socket): void;
  /** An accept failed, e.g. for want of file descriptors; the next try is in `pauseMs`. */
  onAcceptFailed(caught: unknown, pauseMs: number): void;
}

/** Runs from construction until `close`. */
export class AcceptLoop {
  readonly #listener: SocketListener;
  readonly #clock: Clock;
  readonly #events: AcceptEvents;
  #isClosed = false;
  /** Ends the pause under way. */
  #wake: (() => void) | null = null;
  readonly #done: Promise<void>;

  constructor(listener: SocketListener, clock: Clock, events: AcceptEvents) {
    this.#listener = listener;
    this.#clock = clock;
    this.#events = events;
    this.#done = this.#run();
  }

  /** Closes the listener; resolves when the loop has ended. Idempotent. */
  async close(): Promise<void> {
    if (!this.#isClosed) {
      this.#isClosed = true;
      this.#listener.close();
      this.#wake?.();
    }
    await this.#done;
  }

  async #run(): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS;
    while (!this.#isClosed) {
      let socket: Socket;
      try {
        socket = await this.#listener.accept();
      } catch (caught) {
        if (this.#isClosed) return;
        // Without a pause the loop would spin: the connection that cannot be accepted stays at the head of the line.
        this.#events.onAcceptFailed(caught, pauseMs);
        await this.#pause(pauseMs);
        pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
        continue;
      }
      pauseMs = FIRST_PAUSE_MS;
      this.#events.onAccepted(socket);
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#clock.setTimer(() => this.#wake?.(), ms);
      this.#wake = () => {
        this.#wake = null;
        this.#clock.clearTimer(timer);
        resolve();
      };
    });
  }
}
