/**
 * denoland/deno#12341: native code read memory that the runtime had freed, because nothing keeps a buffer alive after the
 * call that handed it over. Here every posted send lies in a buffer that a table owns until its completion.
 */
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { fillPattern } from "../support/pattern.ts";
import { PeerProcess } from "../support/peer_process.ts";
import { RecordingSink, TLS_SETS, ucxTest, until, withEnv } from "../ucx/support.ts";

const FRAMES = 24;
const BYTES = 262_144;

for (const tls of TLS_SETS) {
  ucxTest(
    `UcxTransport keeps what it posted although every reference is gone and memory is tight (${tls})`,
    async () => {
      await withEnv({ UCX_TLS: tls }, async () => {
        const transport = new UcxTransport({ outstanding: { maxFrames: 64, maxBytes: 1 << 30 } });
        await transport.start(new RecordingSink());
        await using peer = await PeerProcess.start({ transport: "ucx", verify: true, env: { UCX_TLS: tls } });
        transport.register("b", new Uint8Array(Buffer.from(peer.entry, "base64")));
        await transport.checkHealth("b", 10_000);
        peer.signal("SIGSTOP");
        for (let sequence = 0; sequence < FRAMES; sequence++) {
          const header = new Uint8Array(35);
          new DataView(header.buffer).setUint32(4, sequence, true);
          const payload = new Uint8Array(BYTES);
          fillPattern(payload, sequence);
          assert(transport.send("b", 0, 0, header, [payload]));
          payload.fill(0xee);
          header.fill(0xee);
        }
        const { memory, sender } = transport.runtime!;
        assert(sender.outstanding > 0, "nothing is outstanding: the test shows nothing");
        assertEquals(memory.taken, sender.outstanding);
        for (let i = 0; i < 50; i++) {
          // 200 MiB in all, overwritten and dropped: the collector runs, and freed memory is used again.
          new Uint8Array(4_194_304).fill(0xdd);
          await new Promise((resolve) => setTimeout(resolve, 0));
        }
        peer.signal("SIGCONT");
        const report = await peer.ask({ do: "await", frames: FRAMES });
        assertEquals([report.frames, report.wrong], [FRAMES, 0]);
        await until("every send has completed", () => sender.outstanding === 0);
        assertEquals(memory.taken, 0);
        await transport.shutdown(500);
      });
    },
  );
}
