import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { createLogger, type LoggerOptions } from "../../src/observe/log.ts";

function capture(options: LoggerOptions) {
  const lines: string[] = [];
  const log = createLogger({ now: () => new Date(0), write: (line) => void lines.push(line), ...options });
  return { lines, log };
}

Deno.test("createLogger writes one JSON object per line, with the child's fields", () => {
  const { lines, log } = capture({ format: "json" });
  log.child({ node: "frontend" }).info("stream_ended", { outcome: "ok", id: 2n ** 64n, missing: undefined });
  assertEquals(lines.length, 1);
  assert(lines[0]!.endsWith("}\n"));
  assertEquals(JSON.parse(lines[0]!), {
    time: "1970-01-01T00:00:00.000Z",
    level: "info",
    event: "stream_ended",
    node: "frontend",
    outcome: "ok",
    id: "18446744073709551616",
  });
});

Deno.test("createLogger quotes text values so that one event stays one line", () => {
  const { lines, log } = capture({ format: "text" });
  log.warn("peer_lost", { reason: "a b\nforged line", peer: "127.0.0.1:7000", n: 3 });
  assertEquals(
    lines,
    ['1970-01-01T00:00:00.000Z warn  peer_lost reason="a b\\nforged line" peer=127.0.0.1:7000 n=3\n'],
  );
});

Deno.test("createLogger leaves out what is below its level", () => {
  const { lines, log } = capture({ level: "warn" });
  log.debug("a");
  log.info("b");
  log.warn("c");
  log.error("d");
  assertEquals(lines.map((line) => line.trimEnd().split(" ").at(-1)), ["c", "d"]);
  const silent = capture({ level: "silent" });
  silent.log.error("e");
  assertEquals(silent.lines, []);
});

Deno.test("createLogger never writes secrets, however deep, and cuts long values", () => {
  for (const format of ["text", "json"] as const) {
    const { lines, log } = capture({ format });
    log.info("x", {
      apiKey: "sk-1",
      headers: { Authorization: "Bearer sk-2", api_key: "sk-3" },
      long: "y".repeat(9_999),
    });
    assert(!lines[0]!.includes("sk-"), lines[0]);
    assertStringIncludes(lines[0]!, "[redacted]");
    assert(lines[0]!.length < 3_000);
  }
});

Deno.test("createLogger writes an error as code, message and cause, and survives what JSON cannot hold", () => {
  const { lines, log } = capture({ format: "json" });
  const loop: Record<string, unknown> = {};
  loop.self = loop;
  const error = new TokenplaneError("connection", "Cannot dial", { cause: new Error("refused") });
  log.error("x", { error, loop, level: "mine" });
  const record = JSON.parse(lines[0]!);
  assertEquals(record.error, "connection: Cannot dial (refused)");
  assertEquals(record.loop, "[unprintable]");
  assertEquals([record.level, record.field_level], ["error", "mine"]);
});
