import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { UcxTransport } from "../../transports/ucx/transport.ts";
import { PeerProcess } from "../support/peer_process.ts";
import { RecordingSink, TLS_SETS, ucxTest, until, withEnv } from "./support.ts";

/** A sink that needs its time for every frame. */
class SlowSink extends RecordingSink {
  readonly #ms: number;

  constructor(ms: number) {
    super();
    this.#ms = ms;
  }

  override onFrame(...frame: Parameters<RecordingSink["onFrame"]>): void {
    super.onFrame(...frame);
    const end = performance.now() + this.#ms;
    while (performance.now() < end);
  }
}

for (const tls of TLS_SETS) {
  const env = { UCX_TLS: tls };

  ucxTest(
    `ProgressLoop leaves timers their turn in a backlog, and says that it is behind (${tls})`,
    async () => {
      await withEnv(env, async () => {
        const [frames, frameMs] = [300, 5];
        const sink = new SlowSink(frameMs);
        const transport = new UcxTransport();
        await transport.start(sink);
        await using peer = await PeerProcess.start({ transport: "ucx", env });
        await peer.ask({
          do: "register",
          peer: "a",
          entry: Buffer.from(transport.addressEntry()).toString("base64"),
        });
        const { loop } = transport.runtime!;
        let [worst, ticks, behindMs, last] = [0, 0, 0, performance.now()];
        const timer = setInterval(() => {
          const now = performance.now();
          if (sink.frames.length > 0 && sink.frames.length < frames) {
            ticks++;
            worst = Math.max(worst, now - last);
            behindMs = Math.max(behindMs, now - loop.caughtUpAt);
          }
          last = now;
        }, 1);
        await peer.ask({ do: "flood", to: "a", count: frames, bytes: 32_768 });
        await until("all have come", () => sink.frames.length === frames, 20_000);
        clearInterval(timer);
        assert(ticks >= 10, `a timer fired ${ticks} times in ${frames * frameMs} ms`);
        assert(worst < frames * frameMs / 3, `no timer fired for ${worst.toFixed(0)} ms`);
        assert(behindMs > 20 * frameMs, `the loop was behind by ${behindMs.toFixed(0)} ms at most`);
        await new Promise((resolve) => setTimeout(resolve, 20));
        assert(performance.now() - loop.caughtUpAt < 5, "the loop has nothing to do");
        assertEquals(sink.lost, []);
        await transport.shutdown(500);
      });
    },
  );
}
