/** Which egress works here: asked once per process. */
import { createServer, request } from "node:http";
import { TokenplaneError } from "../../errors.ts";
import type { EgressChoice } from "../options.ts";
import { portableSink } from "./portable_sink.ts";
import type { SinkFactory } from "./sink.ts";
import { socketSink } from "./socket_sink.ts";

let probed: Promise<boolean> | null = null;

/** The sink for a setting. Throws `invalid_config` when the named one does not work on this runtime. */
export async function chooseEgress(choice: EgressChoice): Promise<SinkFactory> {
  if (choice === "portable") return portableSink;
  probed ??= canWriteToSocket();
  if (await probed) return socketSink;
  if (choice === "auto") return portableSink;
  throw new TokenplaneError(
    "invalid_config",
    'Cannot use egress "socket": this runtime does not let a response write to its socket; use "auto"',
  );
}

/** Sends a response to itself over loopback: runtimes differ in what `response.socket` is, and say so nowhere. */
function canWriteToSocket(): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const server = createServer((_request, response) => {
    response.writeHead(200);
    response.write("a", () => {
      const { socket } = response;
      if (typeof socket?.write !== "function") return resolve(false);
      socket.write("1\r\nb\r\n");
      response.end("c");
    });
  });
  server.on("error", () => resolve(false));
  server.listen({ port: 0, host: "127.0.0.1" }, () => {
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const probe = request({ port, host: "127.0.0.1", agent: false, timeout: 2_000 }, (response) => {
      let body = "";
      response.setEncoding("latin1");
      response.on("data", (chunk: string) => body += chunk);
      response.on("end", () => resolve(body === "abc"));
      response.on("error", () => resolve(false));
    });
    probe.on("error", () => resolve(false));
    probe.on("timeout", () => probe.destroy(new Error("Probe timed out")));
    probe.end();
  });
  return promise.finally(() => {
    server.closeAllConnections();
    server.close();
  });
}
