/** denoland/deno#29203 and kin: the program where UCX is not installed, from source and compiled. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { deadline } from "@std/async";
import { optionalTest } from "../support/optional.ts";
import { chat, eventsOf, FROM_SOURCE, Program, runProgram } from "../support/program.ts";
import { hideUcx } from "../support/without_ucx.ts";

const LIMIT_MS = 30_000;
const BINARY = new URL("../../dist/tokenplane", import.meta.url).pathname;
const hidden = hideUcx();
const isCompiled = await Deno.stat(BINARY).then(() => true, () => false);

for (
  const [name, command, component, isThere] of [
    ["main.ts", FROM_SOURCE, "a machine without UCX, or root and unshare to hide it", true],
    [
      "dist/tokenplane",
      [BINARY],
      "a machine without UCX, or dist/tokenplane (deno task compile)",
      isCompiled,
    ],
  ] as const
) {
  const test = (what: string, fn: () => Promise<void>) =>
    optionalTest(component, hidden !== null && isThere, `${name} without UCX ${what}`, fn);
  const run = [...hidden ?? [], ...command];

  test("says so in one line and exits with 2 when it is asked for UCX, before anything listens", async () => {
    for (
      const args of [
        ["frontend", "--listen", "127.0.0.1:0", "--shards", "1"],
        ["worker", "--frontend", "127.0.0.1:1"],
        ["start", "--listen", "127.0.0.1:0", "--shards", "1"],
      ]
    ) {
      const node = args[0] === "start" ? [] : ["--node-listen", "127.0.0.1:0"];
      const { code, stdout, stderr } = await deadline(
        runProgram([...args, ...node, "--transport", "ucx"], {}, run),
        LIMIT_MS,
      );
      assertEquals([code, stdout], [2, ""], stderr);
      assertEquals(stderr.trimEnd().split("\n").length, 1, stderr);
      assertStringIncludes(stderr, "UCX not available: ");
      assertStringIncludes(stderr, "libucp.so.0");
    }
  });

  test("serves over TCP", async () => {
    await using program = new Program(["start", "--listen", "127.0.0.1:0"], {}, run);
    const [, url] = await deadline(program.ready(/serves on (http:\S+) /), LIMIT_MS);
    const response = await chat(url!, { max_tokens: 10 });
    assertEquals(response.status, 200);
    assertEquals(eventsOf(await response.text()).length, 13);
    program.kill("SIGTERM");
    assertEquals((await deadline(program.finished(), LIMIT_MS)).code, 0);
  });
}
