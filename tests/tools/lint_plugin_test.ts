import { assertEquals } from "@std/assert";
import plugin, { importFault, messageFault } from "../../tools/lint_plugin.ts";

const root = new URL("../../", import.meta.url).pathname;

function lint(path: string, source: string): string[] {
  return Deno.lint.runPlugin(plugin, `${root}${path}`, source).map((found) => found.id).sort();
}

Deno.test("messageFault wants a capital, no full stop and no contraction", () => {
  const cases: Array<[string, boolean]> = [
    ["Cannot dial: refused", true],
    ["\uFFFC is not a number", true],
    ["Cannot use a slot's budget", true],
    ["cannot dial", false],
    ["Cannot dial.", false],
    ["It doesn't dial", false],
    ["It's closed", false],
  ];
  for (const [text, good] of cases) assertEquals(messageFault(text) === null, good, text);
});

Deno.test("importFault lets imports point downwards only", () => {
  const cases: Array<[string, string, boolean, boolean]> = [
    ["src/frontend/a.ts", "src/plane/types.ts", false, true],
    ["src/plane/a.ts", "src/frontend/types.ts", true, false],
    ["src/frontend/a.ts", "src/worker/b.ts", true, false],
    ["src/mux/a.ts", "src/messenger/types.ts", true, true],
    ["src/mux/a.ts", "src/messenger/messenger.ts", false, false],
    ["src/plane/a.ts", "src/messenger/messenger.ts", false, true],
    ["src/messenger/a.ts", "transports/contract.ts", false, true],
    ["src/messenger/a.ts", "transports/tcp/lane.ts", true, false],
    ["transports/ucx/a.ts", "transports/tcp/lane.ts", false, false],
    ["transports/tcp/a.ts", "transports/contract.ts", false, true],
    ["transports/tcp/a.ts", "src/mux/mux.ts", true, false],
    ["src/modes/a.ts", "transports/tcp/tcp_transport.ts", false, true],
    ["src/errors.ts", "src/clock.ts", false, false],
    ["src/modes/a.ts", "src/new/thing.ts", false, false],
    ["src/modes/a.ts", "tests/support/hex.ts", false, false],
    ["transports/tcp/a.ts", "tools/compile.ts", true, false],
    ["tests/a_test.ts", "src/mux/mux.ts", false, true],
    ["tools/a.ts", "src/config/table.ts", false, true],
    ["main.ts", "src/modes/start.ts", false, true],
    ["main.ts", "deno.json", false, true],
  ];
  for (const [from, to, isTypeOnly, good] of cases) {
    assertEquals(importFault(from, to, isTypeOnly) === null, good, `${from} → ${to}`);
  }
});

Deno.test("the plugin reports each fault of the product's files, and of no others where it does not matter", () => {
  const bad = [
    'throw new TokenplaneError("closed", "cannot dial");',
    "throw new Error(`Cannot dial ${host}.`);",
    'throw new RangeError("Cannot " + "dial.");',
    'import { Mux } from "../frontend/node.ts";',
    'export * from "../frontend/node.ts";',
    "enum Colour { red }",
    "export const twice = (n: number) => 2 * n;",
  ].join("\n");
  assertEquals(lint("src/mux/bad.ts", bad), [
    "tokenplane/error-message",
    "tokenplane/error-message",
    "tokenplane/error-message",
    "tokenplane/layers",
    "tokenplane/layers",
    "tokenplane/no-enum",
    "tokenplane/top-level-functions",
  ]);
  assertEquals(lint("tests/bad_test.ts", bad), ["tokenplane/no-enum"]);
  const good = [
    'import type { MessengerPort } from "../messenger/types.ts";',
    'import { type Admission, type Transport } from "../../transports/contract.ts";',
    'throw new TokenplaneError("closed", `Cannot dial "${host}": refused`);',
    "export function twice(n: number) { return [n].map((one) => 2 * one); }",
  ].join("\n");
  assertEquals(lint("src/mux/good.ts", good), []);
});
