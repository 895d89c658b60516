import { assertEquals } from "@std/assert";
import { countCases, summaryLine } from "../../tools/run_tests.ts";

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

Deno.test("summaryLine never reports a failed run as green", () => {
  assertEquals(summaryLine({ passed: 2, failed: 0, skipped: 1 }, 0), "2 passed, 0 failed, 1 skipped");
  assertEquals(summaryLine({ passed: 2, failed: 0, skipped: 0 }, 1), "2 passed, 1 failed, 0 skipped");
  assertEquals(summaryLine({ passed: 2, failed: 3, skipped: 0 }, 1), "2 passed, 3 failed, 0 skipped");
});
