/** Which egress works here: asked once per process. */
import { createServer, type IncomingMessage, request, type RequestListener } from "node:http";
import { createServer as createTlsServer, request as requestTls } from "node:https";
import { type AddressInfo, connect } from "node:net";
import { TokenplaneError } from "../../errors.ts";
import type { EgressChoice } from "../options.ts";
import type { CertificatePair } from "../tls/certificate.ts";
import { frameChunk, ownChunk, PREFIX_BYTES } from "./chunk_slab.ts";
import { DirectSend } from "./direct_send.ts";
import { portableEgress } from "./portable_sink.ts";
import { SendRing } from "./send_ring.ts";
import type { Egress } from "./sink.ts";
import { directEgress, ringEgress, socketEgress } from "./socket_sink.ts";

const encoder = new TextEncoder();
const PROBE_CHUNK = encoder.encode("1\r\nb\r\n");
/** The second may not begin before the first has ended, and nothing may be in it twice. */
const TWO_RESPONSES =
  /^HTTP\/1\.1 200 [^]+?\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\nHTTP\/1\.1 200 [^]+?\r\n\r\n2\r\nab\r\n0\r\n\r\n$/;

/** Ways out, worst first: where one works, so do those before it. */
const WAYS = Object.freeze(["portable", "socket", "ffi", "ring"] as const);
type Way = (typeof WAYS)[number];

/** What the runtime offers. */
interface Offer {
  readonly best: Way;
  /** Head and end of a response may leave together with chunks, past the response. */
  readonly ownsHead: boolean;
}

let probed: Promise<Offer> | null = null;
/** The same on a connection that is encrypted: what the kernel is given there only the runtime knows to make. */
let probedTls: Promise<Offer> | null = null;

/**
 * The egress for a setting. Throws `invalid_config` when the named one does not work on this runtime, or behind TLS.
 *
 * @param certificate of a server behind TLS
 */
export async function chooseEgress(
  choice: EgressChoice,
  certificate: CertificatePair | null = null,
): Promise<Egress> {
  if (choice === "portable") return portableEgress;
  const { best, ownsHead } =
    await (certificate === null
      ? probed ??= probe()
      : probedTls ??= probeWay(certificate).then((best) => ({ best, ownsHead: false })));
  const way = choice === "auto" ? best : choice;
  if (WAYS.indexOf(way) > WAYS.indexOf(best)) {
    const offers = certificate === null ? "this runtime offers" : "behind TLS this runtime offers";
    throw new TokenplaneError(
      "invalid_config",
      `Cannot use egress "${choice}": ${offers} no more than "${best}"; use "auto"`,
    );
  }
  switch (way) {
    case "portable":
      return portableEgress;
    case "socket":
      return socketEgress;
    case "ffi":
      return directEgress(ownsHead);
    case "ring":
      return ringEgress(SendRing.open()!, ownsHead);
  }
}

async function probe(): Promise<Offer> {
  const best = await probeWay(null);
  const isDirect = best === "ffi" || best === "ring";
  return { best, ownsHead: isDirect && await probeOwnHead() };
}

/** Sends a response to itself over loopback: runtimes differ in what `response.socket` is, and say so nowhere. */
function probeWay(certificate: CertificatePair | null): Promise<Way> {
  const { promise, resolve } = Promise.withResolvers<Way>();
  let offered: Way = "portable";
  const answer: RequestListener = (_request, response) => {
    response.writeHead(200);
    response.write("a", () => {
      const { socket } = response;
      if (typeof socket?.write !== "function") return resolve("portable");
      const direct = DirectSend.open(socket);
      offered = direct === null ? "socket" : SendRing.open() === null ? "ffi" : "ring";
      const taken = direct === null ? 0 : direct.send(PROBE_CHUNK);
      direct?.close();
      if (taken === 0) {
        // With nothing queued a connection takes six bytes at once, or the descriptor is not this connection's.
        offered = "socket";
        socket.write(PROBE_CHUNK);
      }
      response.end("c");
    });
  };
  const server = certificate === null ? createServer(answer) : createTlsServer({ ...certificate }, answer);
  server.on("error", () => resolve("portable"));
  server.listen({ port: 0, host: "127.0.0.1" }, () => {
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const target = { port, host: "127.0.0.1", agent: false, timeout: 2_000 } as const;
    const onResponse = (response: IncomingMessage) => {
      let body = "";
      response.setEncoding("latin1");
      response.on("data", (chunk: string) => body += chunk);
      response.on("end", () => resolve(body === "abc" ? offered : "portable"));
      response.on("error", () => resolve("portable"));
    };
    // Nothing is proven to a client that is the server itself.
    const asking = certificate === null
      ? request(target, onResponse)
      : requestTls({ ...target, rejectUnauthorized: false }, onResponse);
    asking.on("error", () => resolve("portable"));
    asking.on("timeout", () => asking.destroy(new Error("Probe timed out")));
    asking.end();
  });
  return promise.finally(() => {
    server.closeAllConnections();
    server.close();
  });
}

/** Two responses on one connection, one in two sends and one in a single send: each whole, and the connection kept. */
function probeOwnHead(): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  let served = 0;
  const server = createServer((_request, response) => {
    response.writeHead(200);
    const sink = directEgress(true).sink(response, { onWritable() {}, onBlocked() {}, writeFailed() {} });
    const { headRoom } = sink;
    if (headRoom === 0) return resolve(false);
    const send = (way: "write" | "writeLast", text: string, room: number) => {
      const start = room + PREFIX_BYTES;
      const end = start + text.length;
      const buffer = ownChunk(text.length, room);
      encoder.encodeInto(text, buffer.subarray(start));
      sink[way](buffer, frameChunk(buffer, start, end), start, end, end + 2);
    };
    if (served++ === 0) {
      send("write", "a", headRoom);
      setTimeout(() => send("writeLast", "b", 0), 0);
    } else {
      send("writeLast", "ab", headRoom);
    }
  });
  server.on("error", () => resolve(false));
  server.listen({ port: 0, host: "127.0.0.1" }, () => {
    const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
    const ask = "POST / HTTP/1.1\r\nhost: probe\r\ncontent-length: 0\r\n\r\n";
    let text = "";
    let asked = 1;
    client.setEncoding("latin1");
    client.setTimeout(2_000, () => client.destroy());
    client.write(ask);
    client.on("data", (piece: string) => {
      text += piece;
      if (!text.endsWith("\r\n0\r\n\r\n")) return;
      if (asked++ === 1) client.write(ask);
      else client.destroy();
    });
    client.on("error", () => {});
    client.on("close", () => resolve(TWO_RESPONSES.test(text)));
  });
  return promise.finally(() => {
    server.closeAllConnections();
    server.close();
  });
}
