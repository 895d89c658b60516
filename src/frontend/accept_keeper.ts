/**
 * Keeps an HTTP server accepting. When the process is out of descriptors, Deno's `node:http` stops to accept for good and
 * emits nothing. Listening again on the same handle sets it going, and changes nothing on one that goes.
 */
import type { Server } from "node:net";

/** How often a server that has accepted nothing is told to, ms. */
const INTERVAL_MS = 1_000;

/** The part of a server's handle that does it; not public, so it may be missing. */
interface ListeningHandle {
  listen?: (backlog: number) => unknown;
}

/** Starts with the server's listening and stops with its `close`. */
export function keepAccepting(server: Server, backlog: number): void {
  let accepted = 0;
  const timer = setInterval(() => {
    if (accepted === 0) (server as { _handle?: ListeningHandle | null })._handle?.listen?.(backlog);
    accepted = 0;
  }, INTERVAL_MS);
  Deno.unrefTimer(timer);
  server.on("connection", () => accepted++);
  server.once("close", () => clearInterval(timer));
}
