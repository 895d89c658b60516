/** Which egress works here: asked once per process. */
import { createServer, request } from "node:http";
import { TokenplaneError } from "../../errors.ts";
import type { EgressChoice } from "../options.ts";
import { DirectSend } from "./direct_send.ts";
import { portableEgress } from "./portable_sink.ts";
import { SendRing } from "./send_ring.ts";
import type { Egress } from "./sink.ts";
import { directEgress, ringEgress, socketEgress } from "./socket_sink.ts";

const PROBE_CHUNK = new TextEncoder().encode("1\r\nb\r\n");

/** Ways out, worst first: where one works, so do those before it. */
const WAYS = Object.freeze(["portable", "socket", "ffi", "ring"] as const);
type Way = (typeof WAYS)[number];

let probed: Promise<Way> | null = null;

/** The egress for a setting. Throws `invalid_config` when the named one does not work on this runtime. */
export async function chooseEgress(choice: EgressChoice): Promise<Egress> {
  if (choice === "portable") return portableEgress;
  const best = await (probed ??= probe());
  const way = choice === "auto" ? best : choice;
  if (WAYS.indexOf(way) > WAYS.indexOf(best)) {
    throw new TokenplaneError(
      "invalid_config",
      `Cannot use egress "${choice}": this runtime offers no more than "${best}"; use "auto"`,
    );
  }
  switch (way) {
    case "portable":
      return portableEgress;
    case "socket":
      return socketEgress;
    case "ffi":
      return directEgress;
    case "ring":
      return ringEgress(SendRing.open()!);
  }
}

/** Sends a response to itself over loopback: runtimes differ in what `response.socket` is, and say so nowhere. */
function probe(): Promise<Way> {
  const { promise, resolve } = Promise.withResolvers<Way>();
  let offered: Way = "portable";
  const server = createServer((_request, response) => {
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
  });
  server.on("error", () => resolve("portable"));
  server.listen({ port: 0, host: "127.0.0.1" }, () => {
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const asking = request({ port, host: "127.0.0.1", agent: false, timeout: 2_000 }, (response) => {
      let body = "";
      response.setEncoding("latin1");
      response.on("data", (chunk: string) => body += chunk);
      response.on("end", () => resolve(body === "abc" ? offered : "portable"));
      response.on("error", () => resolve("portable"));
    });
    asking.on("error", () => resolve("portable"));
    asking.on("timeout", () => asking.destroy(new Error("Probe timed out")));
    asking.end();
  });
  return promise.finally(() => {
    server.closeAllConnections();
    server.close();
  });
}
