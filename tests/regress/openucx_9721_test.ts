/**
 * openucx/ucx#9721: a request completed twice, or never, when the peer died with sends outstanding and the endpoint was
 * closed from inside its error callback. Here the callback only records, the loop closes once, and each send settles
 * exactly once, whichever side is killed.
 */
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import type { TokenplaneError } from "../../src/errors.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { PeerProcess } from "../support/peer_process.ts";
import { RecordingSink, TLS_SETS, ucxTest, until, withEnv } from "../ucx/support.ts";

const OUTSTANDING = 64;
const WAITING = 5;

/** Fills a stopped peer until `OUTSTANDING` sends are outstanding and `WAITING` wait. */
function fill(transport: UcxTransport, settled: (TokenplaneError | null)[][]): number {
  const header = new Uint8Array(35);
  const payload = new Uint8Array(32_768);
  let waiting = 0;
  let sent = 0;
  while (waiting < WAITING) {
    const outcome: (TokenplaneError | null)[] = [];
    const isAdmitted = transport.send("b", 0, 0, header, [payload], (error) => outcome.push(error));
    sent++;
    if (isAdmitted) continue;
    settled.push(outcome);
    waiting++;
    assert(sent < 10_000, "the bound on outstanding sends never took hold");
  }
  return sent;
}

for (const tls of TLS_SETS) {
  for (const race of ["alone", "racing a local close", "during shutdown"] as const) {
    ucxTest(
      `Sender settles 64 outstanding sends exactly once when the receiver is killed (${tls}, ${race})`,
      async () => {
        await withEnv({ UCX_TLS: tls }, async () => {
          const sink = new RecordingSink();
          const transport = new UcxTransport({
            outstanding: { maxFrames: OUTSTANDING, maxBytes: 1 << 30 },
            peerTimeoutMs: 300,
          });
          await transport.start(sink);
          const peer = await PeerProcess.start({ transport: "ucx", env: { UCX_TLS: tls } });
          transport.register("b", new Uint8Array(Buffer.from(peer.entry, "base64")));
          await transport.checkHealth("b", 5_000);
          peer.signal("SIGSTOP");
          const settled: (TokenplaneError | null)[][] = [];
          fill(transport, settled);
          const { sender, memory } = transport.runtime!;
          assertEquals(sender.outstanding, OUTSTANDING);
          let closing: Promise<void> | null = null;
          const killed = peer.kill();
          if (race === "racing a local close") transport.unregister("b");
          if (race === "during shutdown") closing = transport.shutdown(200);
          await killed;
          await until("every send has settled", () => {
            const { posted, inline, refused, completed, failed, abandoned } = sender.counts;
            return posted === inline + refused + completed + failed + abandoned;
          });
          await until("every admission has failed", () => settled.every((outcome) => outcome.length > 0));
          assertEquals(
            settled.map((outcome) => outcome.map((error) => error?.code)),
            Array(WAITING).fill(["connection"]),
          );
          assertEquals(sink.lost.length, 1);
          await (closing ?? transport.shutdown(200));
          assertEquals(transport.stats.leakedWorkers, 0);
          // Where UCX can cancel, it has given every buffer back; else the buffers of the abandoned sends are left.
          assertEquals(memory.taken, sender.counts.abandoned);
          assert(sender.counts.abandoned <= (tls === "tcp" ? 0 : OUTSTANDING + 1));
          const { posted, inline, refused, completed, failed, abandoned } = sender.counts;
          assertEquals(posted, inline + refused + completed + failed + abandoned);
        });
      },
    );
  }

  ucxTest(
    `Receiver goes on, and serves the successor, when the sender is killed with 64 sends outstanding (${tls})`,
    async () => {
      await withEnv({ UCX_TLS: tls }, async () => {
        const sink = new RecordingSink();
        const transport = new UcxTransport({ peerTimeoutMs: 300 });
        await transport.start(sink);
        const own = Buffer.from(transport.addressEntry()).toString("base64");
        for (let life = 1; life <= 2; life++) {
          const peer = await PeerProcess.start({
            transport: "ucx",
            options: { outstanding: { maxFrames: OUTSTANDING, maxBytes: 1 << 30 } },
            env: { UCX_TLS: tls },
          });
          await peer.ask({ do: "register", peer: "a", entry: own });
          transport.register("b", new Uint8Array(Buffer.from(peer.entry, "base64")));
          await transport.checkHealth("b", 5_000);
          transport.send("b", 0, 1, new Uint8Array(4), []);
          const before = sink.frames.length;
          const flood = peer.ask({ do: "flood", to: "a", count: 1_000_000, bytes: 32_768 }).catch(() => null);
          await until("frames arrive", () => sink.frames.length > before);
          sink.frames.length = 0;
          // Nothing is read from here on, so the sender runs into its bound.
          Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
          await peer.kill();
          assertEquals(await flood, null);
          await until("the loss has been noticed", () => sink.lost.length === life);
          assertEquals(sink.inboundClosed.length, life);
          sink.frames.length = 0;
        }
        await transport.shutdown(200);
        assertEquals(transport.stats.leakedWorkers, 0);
      });
    },
  );
}
