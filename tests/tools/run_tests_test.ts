import { assert, assertEquals } from "@std/assert";
import { countCases, nativeTests, summaryLine } from "../../tools/run_tests.ts";

const REPORT = `<testsuites name="deno test" tests="4" failures="1" errors="0">
  <testsuite name="a" tests="4"><testcase name="one" time="0.1"></testcase>
    <testcase name="two" />
    <testcase name="three"><failure message="x">Error: x <![CDATA[</a>]]></failure></testcase>
    <testcase name="four"><skipped /></testcase>
  </testsuite>
</testsuites>`;

Deno.test("countCases counts each test case once", () => {
  assertEquals(countCases(REPORT), { passed: 2, failed: 1, skipped: 1 });
  assertEquals(countCases(""), { passed: 0, failed: 0, skipped: 0 });
});

Deno.test("summaryLine adds up the runs", () => {
  const runs = [{ passed: 2, failed: 0, skipped: 1 }, { passed: 1, failed: 3, skipped: 0 }];
  assertEquals(summaryLine(runs), "3 passed, 3 failed, 1 skipped");
});

Deno.test("nativeTests finds the tests that load UCX, and no others", async () => {
  const found = await nativeTests(new URL("../../tests", import.meta.url).pathname);
  assert(found.some((path) => path.endsWith("/contract/ucx_test.ts")));
  assert(found.some((path) => path.includes("/tests/ucx/")));
  assert(found.every((path) => path.includes("ucx")));
});

Deno.test("run_tests never reports a failed run as green", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const file = `${folder}/broken_test.ts`;
    await Deno.writeTextFile(file, 'throw new Error("Cannot load");');
    const script = new URL("../../tools/run_tests.ts", import.meta.url).pathname;
    const { code, stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--allow-all", script, "--no-lock", "--no-config", file],
      stderr: "null",
    }).output();
    assertEquals(code, 1);
    assert(new TextDecoder().decode(stdout).endsWith("0 passed, 1 failed, 0 skipped\n"));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});
