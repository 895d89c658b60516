/**
 * The tests of what a client sees, run once more behind TLS: time limits, limits of a head, drain, keep-alive, clients that
 * leave, hostile ones, bytes and their order. They are those of plain TCP, in a process whose harness serves behind TLS.
 */
import { assert } from "@std/assert";
import { fileURLToPath } from "node:url";

const FILES = Object.freeze([
  "./accounting_test.ts",
  "./app_test.ts",
  "./client_error_test.ts",
  "./ends_test.ts",
  "./generate_route_test.ts",
  "./hostile_client_test.ts",
  "./openai_client_test.ts",
  "./relay_test.ts",
  "./timeouts_test.ts",
  "../regress/deno_27005_test.ts",
  "../regress/hono_2068_test.ts",
]);
const LIMIT_MS = 180_000;

Deno.test("Frontend behind TLS passes the tests of plain TCP", async () => {
  const run = new Deno.Command(Deno.execPath(), {
    args: [
      ...["test", "--allow-all", "--no-check"],
      ...FILES.map((path) => fileURLToPath(new URL(path, import.meta.url))),
    ],
    env: { TESTS_OVER_TLS: "on", NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    signal: AbortSignal.timeout(LIMIT_MS),
  });
  const { success, stdout, stderr } = await run.output();
  const text = new TextDecoder().decode(stdout);
  assert(success, `${text.slice(-8_000)}${new TextDecoder().decode(stderr).slice(-2_000)}`);
  // The variable has not made it a run of nothing.
  assert(Number(/ok \| (\d+) passed/.exec(text)?.[1]) > 100, text.slice(-500));
});
