import { assert, assertEquals } from "@std/assert";
import { TLS_SETS, ucxTest } from "./support.ts";

const CYCLES = 100;
const MAX_GROWTH_MB = 5;

for (const tls of TLS_SETS) {
  // The process ending by itself is part of the test: an unclosed callback or poll would keep it up (denoland/deno#18898).
  ucxTest(
    `UcxTransport leaks no descriptor, memory or callback over ${CYCLES} starts and stops (${tls})`,
    async () => {
      const program = new URL("./cycle_main.ts", import.meta.url).pathname;
      const { code, stdout } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "-q", "--v8-flags=--expose-gc", program, String(CYCLES)],
        // Freed buffers go back to the system at once, so that what is resident is what is held.
        env: {
          UCX_TLS: tls,
          MALLOC_ARENA_MAX: "1",
          MALLOC_MMAP_THRESHOLD_: "65536",
          MALLOC_TRIM_THRESHOLD_: "65536",
        },
        stderr: "inherit",
      }).output();
      assertEquals(code, 0);
      const { held, before, after } = JSON.parse(new TextDecoder().decode(stdout));
      assertEquals(held, 0);
      assertEquals(after.descriptors, before.descriptors);
      // What leaks, leaks with each cycle; the runtime's own pool grows by a few on a machine that is busy.
      assert(
        after.threads < before.threads + CYCLES / 4,
        `${before.threads} threads became ${after.threads}`,
      );
      const growth = after.nativeMb - before.nativeMb;
      assert(growth < MAX_GROWTH_MB, `the native memory grew by ${growth.toFixed(1)} MB`);
    },
  );
}
