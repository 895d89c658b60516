import { assertEquals, assertMatch } from "@std/assert";
import { deadline } from "@std/async";
import { chat, eventsOf, Program, runProgram } from "../support/program.ts";
import { TLS_SETS, ucxTest } from "../ucx/support.ts";

const LIMIT_MS = 30_000;

for (const tls of TLS_SETS) {
  ucxTest(`start streams over UCX with UCX_TLS=${tls}`, async () => {
    const args = [
      "start",
      "--transport",
      "ucx",
      "--listen",
      "127.0.0.1:0",
      "--mock-itl-ms",
      "1",
      "--batch-ms",
      "0",
    ];
    await using program = new Program(args, { UCX_TLS: tls });
    const [, url] = await deadline(program.ready(/serves on (http:\S+) /), LIMIT_MS);
    const texts = await Promise.all(
      Array.from({ length: 32 }, async () => await (await chat(url!, { max_tokens: 50 })).text()),
    );
    for (const text of texts) assertEquals(eventsOf(text).length, 53);
    program.kill("SIGTERM");
    const { code, stderr } = await deadline(program.finished(), LIMIT_MS);
    assertEquals(code, 0, stderr);
  });
}

Deno.test("start ends with code 2 and one line when UCX cannot be had as asked", async () => {
  // Without the library and with it, the reasons differ; what the operator gets does not.
  const args = ["start", "--transport", "ucx", "--listen", "127.0.0.1:0", "--log-level", "silent"];
  const { code, stdout, stderr } = await runProgram(args, { UCX_TLS: "no_such_transport" });
  assertEquals([code, stdout], [2, ""], stderr);
  assertMatch(stderr, /^tokenplane: [^\n]*UCX[^\n]*\n$/);
});
