/**
 * The HTTP server behind TLS 1.2 or 1.3: `node:https`, whose connections are those of `node:http` with a handshake in
 * front.
 *
 * A client that connects and does not finish its handshake has no request yet, so that none of the limits on requests
 * sees it. Its time is limited, and the number of such: beyond it the oldest gives way, since one that is honest is done
 * in a few round trips, and refusing the newest would let whoever holds the places keep everyone out.
 */
import type { RequestListener, Server as PlainServer, ServerOptions } from "node:http";
import { createServer, type Server } from "node:https";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { FrontendOptions } from "../options.ts";
import type { CertificatePair } from "./certificate.ts";

/** A server with TLS or without. */
export type HttpServer = PlainServer | Server;
/** The settings of the handshake. */
export type HandshakeOptions = Pick<FrontendOptions, "tlsHandshakeTimeoutMs" | "maxTlsHandshakes">;

/** What TLS itself is told, at the start and with each new pair. */
function secureOptions(pair: CertificatePair) {
  return { cert: pair.cert, key: pair.key, minVersion: "TLSv1.2", maxVersion: "TLSv1.3" } as const;
}

/** Makes the server; it does not listen yet. */
export function createTlsServer(
  pair: CertificatePair,
  http: ServerOptions,
  limits: HandshakeOptions,
  onRequest: RequestListener,
): Server {
  const server = createServer({
    ...http,
    ...secureOptions(pair),
    ALPNProtocols: ["http/1.1"],
    handshakeTimeout: limits.tlsHandshakeTimeoutMs,
  }, onRequest);
  limitHandshakes(server, limits.maxTlsHandshakes);
  return server;
}

/** Has a server use another pair from the next handshake on; connections stay. Does nothing to one without TLS. */
export function replaceCertificate(server: HttpServer, pair: CertificatePair): void {
  if ("setSecureContext" in server) server.setSecureContext(secureOptions(pair));
}

/** The client's connection beneath TLS; node's own field, and the only way from one to the other. */
interface SocketOverTls extends TLSSocket {
  readonly _parent?: Socket;
}

function limitHandshakes(server: Server, max: number): void {
  // In the order of their arrival.
  const open = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
    if (open.size <= max) return;
    const [oldest] = open;
    open.delete(oldest!);
    oldest!.destroy();
  });
  server.on("secureConnection", (socket: SocketOverTls) => {
    if (socket._parent !== undefined) return void open.delete(socket._parent);
    // Of a runtime that has no such field nothing is known: better no limit than one on served clients.
    open.clear();
  });
}
