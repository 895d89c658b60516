/** What the tests of direct egress share: connections with both ends here, and the descriptors of this process. */
import { createServer, type ServerResponse } from "node:http";
import net from "node:net";
import { SendRing } from "../../src/frontend/egress/send_ring.ts";
import type { Egress, SinkHost } from "../../src/frontend/egress/sink.ts";
import { directEgress, ringEgress } from "../../src/frontend/egress/socket_sink.ts";
import { RawClient } from "./frontend_harness.ts";

/** A host that nothing matters to. */
export const SINK_HOST: SinkHost = Object.freeze({ onWritable() {}, onBlocked() {}, writeFailed() {} });

/** Descriptors that this process has open. */
export function openDescriptors(): number {
  return [...Deno.readDirSync("/proc/self/fd")].length;
}

/** A connection with both ends here. */
export async function connected(): Promise<
  { socket: net.Socket; client: RawClient; close: () => Promise<void> }
> {
  const server = net.createServer({ allowHalfOpen: true });
  const accepted = new Promise<net.Socket>((resolve) => server.on("connection", resolve));
  const port = await new Promise<number>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as net.AddressInfo).port));
  });
  const client = await RawClient.connect(port);
  const socket = await accepted;
  socket.on("error", () => {});
  return {
    socket,
    client,
    async close() {
      socket.destroy();
      await client.close();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** Runs `serve` for one request with a direct sink; the client is `client`. */
export async function withSink(
  serve: (response: ServerResponse) => void,
  test: (client: RawClient) => Promise<void>,
): Promise<void> {
  const server = createServer((_request, response) => serve(response));
  const port = await new Promise<number>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as net.AddressInfo).port));
  });
  const client = await RawClient.connect(port);
  try {
    await test(client);
  } finally {
    await client.close();
    server.closeAllConnections();
    await new Promise<void>((resolve) => server.close(() => resolve()));
  }
}

/** A request that any server answers. */
export const GET = "GET / HTTP/1.1\r\nhost: t\r\n\r\n";

/** The ways past the socket that this kernel offers. */
export function directWays(): [string, Egress][] {
  const ring = SendRing.open();
  return ring === null
    ? [["ffi", directEgress(true)]]
    : [["ffi", directEgress(true)], ["ring", ringEgress(ring, true)]];
}
