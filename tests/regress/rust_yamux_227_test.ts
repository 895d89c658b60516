/**
 * libp2p/rust-yamux#227: both sides stop reading while something of theirs waits to be written; with both directions
 * full neither goes on. Here: both nodes send far more than queues and sockets hold, and answer every frame.
 */
import { assertEquals } from "@std/assert";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { RecordingSink } from "../contract/transport_harness.ts";

const FRAMES = 400;
const PAYLOAD = new Uint8Array(65_536);

Deno.test("TcpTransport goes on reading while both directions are full", async () => {
  const nodes = [new TcpTransport({ lanes: 1 }), new TcpTransport({ lanes: 1 })];
  const done = nodes.map(() => Promise.withResolvers<void>());
  const answers = [0, 0];
  for (const [i, node] of nodes.entries()) {
    const sink = new RecordingSink();
    sink.onFrame = (_from, type) => {
      if (type === 0) node.send("peer", 0, 2, new Uint8Array(1), []);
      else if (++answers[i]! === FRAMES) done[i]!.resolve();
    };
    await node.start(sink);
  }
  nodes[0]!.register("peer", nodes[1]!.addressEntry());
  nodes[1]!.register("peer", nodes[0]!.addressEntry());
  for (let i = 0; i < FRAMES; i++) {
    for (const node of nodes) node.send("peer", 0, 0, new Uint8Array(1), [PAYLOAD]);
  }
  await Promise.all(done.map((one) => one.promise));
  assertEquals(answers, [FRAMES, FRAMES]);
  await Promise.all(nodes.map((node) => node.shutdown(1_000)));
});
