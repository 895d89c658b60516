import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { decodeAddressEntry, encodeAddressEntry } from "../../transports/ucx/address_entry.ts";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { introduce, PeerProcess } from "../support/peer_process.ts";
import { RecordingSink, TLS_SETS, ucxTest, until, withEnv } from "./support.ts";

const HEADER = new Uint8Array(35);

function entryOf(peer: PeerProcess): Uint8Array {
  return new Uint8Array(Buffer.from(peer.entry, "base64"));
}

for (const tls of TLS_SETS) {
  const env = { UCX_TLS: tls };

  ucxTest(
    `UcxTransport carries every byte in order between two processes, both ways at once (${tls})`,
    async () => {
      await using a = await PeerProcess.start({ transport: "ucx", verify: true, env });
      await using b = await PeerProcess.start({ transport: "ucx", verify: true, env });
      await introduce(a, b);
      let total = 0;
      // Below and above each of UCX's thresholds: short, copied, fragmented, and a full mux batch.
      for (
        const [bytes, count] of [[0, 300], [60, 2_000], [4_096, 2_000], [9_000, 500], [65_000, 200], [
          900_000,
          20,
        ]] as const
      ) {
        total += count;
        const floods = await Promise.all([
          a.ask({ do: "flood", to: "b", count, bytes, verify: true }),
          b.ask({ do: "flood", to: "a", count, bytes, verify: true }),
        ]);
        assertEquals(floods.map(({ admitted, failed }) => [admitted, failed]), [[count, 0], [count, 0]]);
        for (const peer of [a, b]) {
          const report = await peer.ask({ do: "await", frames: total });
          assertEquals([report.frames, report.wrong, report.lanesLost], [total, 0, []]);
        }
      }
      for (const peer of [a, b]) {
        const report = await peer.ask({ do: "report" });
        const { posted, inline, completed } = report.sends!;
        assertEquals([report.outstanding, report.buffersTaken, posted], [0, 0, inline! + completed!]);
      }
    },
  );

  ucxTest(`ProgressLoop loses no wake-up although it parks before every message (${tls})`, async () => {
    await withEnv(env, async () => {
      // Without the backstop a lost wake-up would take ten seconds.
      const options = { spinMs: 0, backstopMs: 10_000 };
      const transport = new UcxTransport(options);
      await transport.start(new RecordingSink());
      await using peer = await PeerProcess.start({ transport: "ucx", options, env });
      transport.register("b", entryOf(peer));
      await transport.checkHealth("b", 8_000);
      const parksBefore = transport.runtime!.loop.counts.parks;
      let slowest = 0;
      for (let i = 0; i < 300; i++) {
        // From at once to long after parking, in uneven steps.
        const pause = (i * 7) % 5;
        if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause));
        const start = performance.now();
        await transport.checkHealth("b", 8_000);
        slowest = Math.max(slowest, performance.now() - start);
      }
      assert(slowest < 3_000, `the slowest of 300 answers took ${slowest.toFixed(0)} ms`);
      assert(transport.runtime!.loop.counts.parks - parksBefore >= 300, "the loop did not park");
      await transport.shutdown(500);
    });
  });

  ucxTest(`PeerLink lets a peer that takes nothing block only itself (${tls})`, async () => {
    await withEnv(env, async () => {
      const limits = { maxFrames: 32, maxBytes: 1 << 20 };
      const transport = new UcxTransport({ outstanding: limits, maxWaiting: 100 });
      await transport.start(new RecordingSink());
      const own = Buffer.from(transport.addressEntry()).toString("base64");
      await using full = await PeerProcess.start({ transport: "ucx", verify: true, env });
      await using good = await PeerProcess.start({ transport: "ucx", env });
      for (const [id, peer] of [["full", full], ["good", good]] as const) {
        transport.register(id, entryOf(peer));
        await peer.ask({ do: "register", peer: "hub", entry: own });
        await transport.checkHealth(id, 8_000);
      }
      full.signal("SIGSTOP");
      const outcomes: string[] = [];
      let sent = 0;
      let waiting = 0;
      // Until the outstanding sends and then the line are full; whatever is more is refused.
      while (waiting < 110 && sent < 20_000) {
        const header = new Uint8Array(35);
        new DataView(header.buffer).setUint32(4, sent, true);
        if (!transport.send("full", 0, 0, header, [], (error) => outcomes.push(error?.code ?? "ok"))) {
          waiting++;
        }
        sent++;
      }
      if (waiting === 110) {
        await until("the excess has been refused", () => outcomes.length === 10);
        assertEquals(outcomes, new Array(10).fill("overloaded"));
      }
      const { sender } = transport.runtime!;
      assert(sender.outstanding <= limits.maxFrames);
      // Control and data of another peer, and answers to it, keep moving.
      for (let i = 0; i < 20; i++) {
        await transport.checkHealth("good", 3_000);
        assert(transport.send("good", 0, 0, HEADER, [new Uint8Array(100)]));
      }
      assertEquals((await good.ask({ do: "health", peer: "hub", timeoutMs: 3_000 })).health, "ok");
      await good.ask({ do: "await", frames: 20 });
      assert(sender.outstanding <= limits.maxFrames);
      full.signal("SIGCONT");
      const accepted = sent - outcomes.filter((outcome) => outcome === "overloaded").length;
      const report = await full.ask({ do: "await", frames: accepted });
      assertEquals([report.frames, report.lanesLost], [accepted, []]);
      await transport.shutdown(1_000);
    });
  });

  ucxTest(`UcxTransport makes a fresh endpoint to a peer that has restarted (${tls})`, async () => {
    await withEnv(env, async () => {
      const sink = new RecordingSink();
      const transport = new UcxTransport({ peerTimeoutMs: 400 });
      await transport.start(sink);
      const first = await PeerProcess.start({ transport: "ucx", env });
      transport.register("b", entryOf(first));
      await transport.checkHealth("b", 8_000);
      await using second = await PeerProcess.start({ transport: "ucx", env });
      transport.register("b", entryOf(second));
      assertEquals(sink.lost, ["b: the peer has moved"]);
      for (let i = 0; i < 10; i++) assert(transport.send("b", 0, 0, HEADER, [new Uint8Array(100)]));
      assertEquals((await second.ask({ do: "await", frames: 10 })).frames, 10);
      await first.kill();
      await transport.checkHealth("b", 3_000);
      assertEquals(sink.lost.length, 1);
      await transport.shutdown(500);
    });
  });

  ucxTest(`Receiver drops what is larger than it said it takes, and counts it (${tls})`, async () => {
    await withEnv(env, async () => {
      const [sink, small] = [new RecordingSink(), new UcxTransport({ eagerMax: 65_536 })];
      await small.start(sink);
      const sender = new UcxTransport();
      await sender.start(new RecordingSink());
      const told = decodeAddressEntry(small.addressEntry());
      sender.register("small", small.addressEntry());
      assertEquals(sender.maxFrameBytes("small"), 65_536);
      // A peer that does not keep to what it was told.
      sender.register("liar", encodeAddressEntry({ ...told, eagerMax: 1_048_576 }));
      assert(sender.send("liar", 0, 0, HEADER, [new Uint8Array(65_536 - HEADER.length)]));
      assert(sender.send("liar", 0, 0, HEADER, [new Uint8Array(65_536 - HEADER.length + 1)]));
      assert(sender.send("liar", 0, 0, HEADER, [new Uint8Array(900_000)]));
      assert(sender.send("liar", 0, 0, HEADER, [new Uint8Array(1)]));
      await until("the frames have come", () => sink.frames.length === 2);
      await until("the others have been counted", () => small.stats.rejections["too_large"] === 2);
      assertEquals(sink.frames.map((frame) => frame.payload.length), [65_536 - HEADER.length, 1]);
      const limit = sender.runtime!.worker.maxHeaderBytes;
      const codes: (string | undefined)[] = [];
      assertEquals(
        sender.send("liar", 0, 0, new Uint8Array(limit + 1), [], (e) => codes.push(e?.code)),
        false,
      );
      assert(sender.send("liar", 0, 0, new Uint8Array(limit), []));
      await until("the largest header has come", () => sink.frames.length === 3);
      assertEquals([sink.frames[2]!.header.length, codes], [limit, ["too_large"]]);
      await sender.shutdown(500);
      await small.shutdown(500);
    });
  });

  ucxTest(`UcxTransport carries frames to itself (${tls}, self)`, async () => {
    await withEnv({ UCX_TLS: `${tls},self` }, async () => {
      const sink = new RecordingSink();
      const transport = new UcxTransport();
      await transport.start(sink);
      transport.register("me", transport.addressEntry());
      for (let i = 0; i < 100; i++) {
        assert(transport.send("me", 0, 0, HEADER, [new Uint8Array(1_000).fill(i)]));
      }
      await until("all have come", () => sink.frames.length === 100);
      assertEquals(sink.frames.map((frame) => frame.payload[999]), Array.from({ length: 100 }, (_, i) => i));
      await transport.shutdown(500);
    });
  });
}
