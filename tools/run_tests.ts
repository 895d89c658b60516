/**
 * Runs `deno test` and ends with one plain line: `N passed, N failed, N skipped`.
 *
 * Deno's own summary is coloured and leaves out zeros; a machine that reads the last line wants neither. Arguments go
 * to `deno test`. The exit code is that of `deno test`.
 *
 * Without a path among the arguments, tests that load native code run in a process of their own: an assertion of a C
 * library ends its process, and with it the count of every other test.
 */

const NATIVE = /\/ucx(?:\/|_(?:\w+_)?test\.ts$)/;

/** Tests by outcome. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
}

/** Counts the test cases of a JUnit report. */
export function countCases(report: string): Counts {
  let [passed, failed, skipped] = [0, 0, 0];
  for (const [, attributes, body] of report.matchAll(/<testcase\b([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs)) {
    if (attributes === undefined) continue;
    if (/<(?:failure|error)\b/.test(body ?? "")) failed++;
    else if (/<skipped\b/.test(body ?? "")) skipped++;
    else passed++;
  }
  return { passed, failed, skipped };
}

/** The last line, over all runs. */
export function summaryLine(runs: readonly Counts[]): string {
  const sum = (of: keyof Counts) => runs.reduce((total, counts) => total + counts[of], 0);
  return `${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped`;
}

/** Test files that load native code. */
export async function nativeTests(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) found.push(...await nativeTests(path));
    else if (name.endsWith("_test.ts") && NATIVE.test(path)) found.push(path);
  }
  return found.sort();
}

async function runTests(args: readonly string[]): Promise<{ counts: Counts; code: number }> {
  const path = await Deno.makeTempFile({ suffix: ".xml" });
  try {
    const test = new Deno.Command(Deno.execPath(), {
      args: ["test", "--allow-all", `--junit-path=${path}`, ...args],
      stdin: "null",
      stdout: "inherit",
      stderr: "inherit",
    }).spawn();
    const { code } = await test.status;
    const counts = countCases(await Deno.readTextFile(path));
    // A run that failed without a failed case: a file that does not load, or a process that was ended.
    return { counts: code !== 0 && counts.failed === 0 ? { ...counts, failed: 1 } : counts, code };
  } finally {
    await Deno.remove(path);
  }
}

async function main(args: readonly string[]): Promise<number> {
  const hasPath = args.some((arg) => !arg.startsWith("-"));
  const native = hasPath ? [] : await nativeTests("tests");
  const runs = native.length === 0 ? [args] : [
    [...args, `--ignore=${native.join(",")}`],
    [...args.filter((arg) => arg !== "--doc"), ...native],
  ];
  const results = [];
  for (const run of runs) results.push(await runTests(run));
  const line = summaryLine(results.map((result) => result.counts));
  await Deno.stdout.write(new TextEncoder().encode(`${line}\n`));
  return results.find((result) => result.code !== 0)?.code ?? 0;
}

if (import.meta.main) Deno.exit(await main(Deno.args));
