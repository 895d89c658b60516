import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { main } from "../../main.ts";
import { curlLine } from "../../src/modes/run.ts";
import { runProgram } from "../support/program.ts";

const BAD: Array<[string, string[], Record<string, string>, string]> = [
  ["wrong value", ["start", "--lanes", "99"], {}, '--lanes "99"'],
  ["unknown flag", ["frontend", "--lissen", ":1"], {}, '"--listen"'],
  ["contradiction", ["worker", "--frontend", "a:1", "--engine", "openai"], {}, "--engine-url"],
  ["bad variable", ["start"], { DYN_VELO_RESPONSE_BATCH_MS: "soon" }, 'DYN_VELO_RESPONSE_BATCH_MS "soon"'],
  ["secret", ["start", "--api-key", "sk-secret key"], {}, "--api-key (hidden)"],
];

for (const [name, args, env, part] of BAD) {
  Deno.test(`the program ends with code 2 and one line on stderr, and starts nothing: ${name}`, async () => {
    const { code, stdout, stderr } = await runProgram(args, env);
    assertEquals(code, 2);
    assertEquals(stdout, "");
    assertMatch(stderr, /^tokenplane: Cannot [^\n]+\n$/);
    assertStringIncludes(stderr, part);
    assert(!stderr.includes("sk-secret"));
  });
}

Deno.test("the program ends with code 2 and one line when its address is taken", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const taken = `127.0.0.1:${listener.addr.port}`;
  for (
    const args of [
      ["frontend", "--listen", taken, "--node-listen", "127.0.0.1:0"],
      ["frontend", "--listen", "127.0.0.1:0", "--node-listen", taken],
      ["start", "--listen", taken],
    ]
  ) {
    const { code, stdout, stderr } = await runProgram([...args, "--log-level", "silent"]);
    assertEquals([code, stdout], [2, ""], stderr);
    assertMatch(stderr, /^tokenplane: Cannot listen [^\n]+\n$/);
    assertStringIncludes(stderr, taken);
  }
});

Deno.test("the program tells its version and helps", async () => {
  const version = await runProgram(["--version"]);
  assertMatch(version.stdout, /^tokenplane \d+\.\d+\.\d+ \(Deno /);
  const help = await runProgram(["worker", "--help"]);
  assertEquals([version.code, help.code, help.stderr], [0, 0, ""]);
  assertStringIncludes(help.stdout, "--engine-url");
});

Deno.test("main resolves to the exit code", async () => {
  // Both write one line to the test's stderr or stdout; what matters here is the number.
  assertEquals(await main(["--version"]), 0);
});

Deno.test("curlLine survives quotes in names and names loopback for a wildcard", () => {
  const line = curlLine({ host: "0.0.0.0", port: 8000 }, "it's", { needsKey: true });
  assertStringIncludes(line, "http://127.0.0.1:8000/");
  assertStringIncludes(line, "it'\\''s");
  assertStringIncludes(line, "$TOKENPLANE_API_KEY");
});
