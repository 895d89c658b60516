/** The HTTP server under the routes: limits of the connection, and the answers to what is no request. */
import { getRequestListener } from "@hono/node-server";
import { createServer, type IncomingMessage, type ServerOptions, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { TokenplaneError, toTokenplaneError } from "../errors.ts";
import { keepAccepting } from "./accept_keeper.ts";
import { unroutable } from "./app.ts";
import { httpErrorBody } from "./error_body.ts";
import type { FrontendOptions } from "./options.ts";
import { MAX_OPEN_PER_CONNECTION, PipelineLimit } from "./pipeline_limit.ts";
import type { CertificatePair } from "./tls/certificate.ts";
import { createTlsServer, type HttpServer } from "./tls/tls_server.ts";

/** How long the rest of a body that has been answered may take, ms. */
const LINGER_MS = 5_000;

/** Where to listen. */
export interface ListenOptions {
  readonly hostname: string;
  /** 0: any free one. */
  readonly port: number;
  /** Shares the port with the other shards of the process. */
  readonly reusePort?: boolean;
}

/**
 * Makes the server for an app; it does not listen yet.
 *
 * @param answerPlain answers a request past the app and returns true; false leaves it to the app
 * @param certificate for a server behind TLS
 */
export function createHttpServer(
  fetch: Parameters<typeof getRequestListener>[0],
  options: FrontendOptions,
  answerPlain?: (request: IncomingMessage, response: ServerResponse) => boolean,
  certificate: CertificatePair | null = null,
): HttpServer {
  const listener = getRequestListener(fetch, {
    // Other parts of the process fetch; their globals stay the runtime's.
    overrideGlobalObjects: false,
    errorHandler: unroutable,
  });
  const pipeline = new PipelineLimit();
  const settings: ServerOptions = {
    maxHeaderSize: options.maxHeaderBytes,
    headersTimeout: options.headersTimeoutMs,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: options.keepAliveTimeoutMs,
    connectionsCheckingInterval: Math.max(100, Math.min(5_000, options.headersTimeoutMs / 4)),
  };
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    if (!pipeline.admits(request, response)) return;
    response.once("finish", () => {
      if (request.complete) return;
      // A client that writes its whole body before it reads would never come to read the answer.
      request.resume();
      closeUnlessRead(request);
    });
    if (answerPlain?.(request, response) !== true) void listener(request, response);
  };
  const server: HttpServer = certificate === null
    ? createServer(settings, onRequest)
    : createTlsServer(certificate, settings, options, onRequest);
  server.maxConnections = options.maxConnections;
  // A token of some hundred bytes must not wait for the acknowledgement of the one before.
  server.on(certificate === null ? "connection" : "secureConnection", (socket: Socket) => {
    socket.setNoDelay(true);
    // Each response that waits its turn listens to it, with its key's limits twice; the default of 10 would write a warning
    // to stderr.
    socket.setMaxListeners(3 * MAX_OPEN_PER_CONNECTION);
  });
  server.on("clientError", answerClientError);
  return server;
}

/** Starts to listen; resolves to the real port. Throws `invalid_config` when the address cannot be had. */
export function listen(server: HttpServer, where: ListenOptions, backlog: number): Promise<number> {
  const { hostname: host, port, reusePort = false } = where;
  return new Promise((resolve, reject) => {
    const onError = (error: Error) => {
      const message = `Cannot listen on "${host}:${port}": ${error.message}`;
      reject(new TokenplaneError("invalid_config", message, { cause: error, scope: "process" }));
    };
    server.once("error", onError);
    server.listen({ host, port, backlog, ...(reusePort ? { reusePort } : {}) }, () => {
      server.off("error", onError);
      // Running out of descriptors, say: the connection is lost, the server is not.
      server.on("error", ignore);
      keepAccepting(server, backlog);
      const address = server.address();
      if (typeof address === "object" && address !== null) resolve(address.port);
      else reject(toTokenplaneError(new Error("The server has no address")));
    });
  });
}

/** A client that has its answer and still sends: it may be on its way to read it, or never stop. */
function closeUnlessRead(request: IncomingMessage): void {
  const { socket } = request;
  const timer = setTimeout(() => {
    if (!request.complete) socket.destroy();
  }, LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
}

interface ServedSocket extends Socket {
  /** The response that has the connection now; node's own field, and the only way to know. */
  _httpMessage?: ServerResponse | null;
  readonly encrypted?: boolean;
  /** Whether the handshake is done; node's own field. */
  readonly _secureEstablished?: boolean;
}

/**
 * What cannot be parsed as a request, or did not arrive in time.
 *
 * By now `node:http` has given the connection's parser back, for another connection to use, but the connection still
 * feeds it: whatever came next would be that other connection's request, and be answered to its client. So the parser is
 * cut off before anything else, and what still comes is thrown away.
 */
function answerClientError(error: Error & { code?: string }, socket: ServedSocket): void {
  socket.removeAllListeners("data");
  socket.removeAllListeners("end");
  // Bytes written now would land inside a response that is on its way.
  const isAnswering = socket._httpMessage !== undefined && socket._httpMessage !== null &&
    socket._httpMessage.headersSent;
  // Whoever does not speak TLS, or not ours, has been told by an alert, and would not understand more.
  const isHandshake = socket.encrypted === true && socket._secureEstablished !== true;
  if (!socket.writable || isAnswering || isHandshake) return void socket.destroy();
  const [status, text, code] = describe(error.code);
  const body = JSON.stringify(httpErrorBody(text, code));
  socket.end(
    `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
  );
  // Closed with bytes unread it would be reset, and the client might lose the answer.
  const close = () => void socket.destroy();
  const timer = setTimeout(close, LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
  socket.once("end", close);
  socket.resume();
}

function describe(code: string | undefined): [string, string, string] {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return ["431 Request Header Fields Too Large", "The request head is too large.", "headers_too_large"];
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return ["408 Request Timeout", "The request did not arrive in time.", "request_timeout"];
    default:
      return ["400 Bad Request", "The request is not valid HTTP/1.1.", "bad_request"];
  }
}

function ignore(): void {}
