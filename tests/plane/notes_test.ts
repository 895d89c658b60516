import { assert, assertEquals, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { decodeNote, encodeHeadNote, encodeSummaryNote, type SummaryNote } from "../../src/plane/notes.ts";

Deno.test("decodeNote gives back a head", () => {
  const head = { status: 429, contentType: "application/json" };
  assertEquals(encodeHeadNote(head), '{"v":1,"status":429,"content_type":"application/json"}');
  assertEquals(decodeNote(encodeHeadNote(head)), { kind: "head", head });
});

Deno.test("decodeNote takes no head for another", () => {
  const heads = [
    { status: 200, contentType: "text/event-stream" },
    { status: 500, contentType: "text/event-stream" },
    { status: 200, contentType: "application/json" },
  ];
  for (const head of [...heads, ...heads, heads[0]!, heads[0]!]) {
    assertEquals(decodeNote(encodeHeadNote(head)), { kind: "head", head });
  }
});

Deno.test("decodeNote gives back a summary", () => {
  const usage = { promptTokens: 7, completionTokens: 1, totalTokens: 8 };
  const summaries: SummaryNote[] = [
    { outcome: "ok", usage, finishReasons: ["stop"] },
    { outcome: "truncated", usage: null, finishReasons: [], detail: "The engine's connection broke" },
  ];
  for (const summary of summaries) {
    assertEquals(decodeNote(encodeSummaryNote(summary)), { kind: "summary", summary });
  }
});

Deno.test("encodeSummaryNote cuts what decodeNote would refuse", () => {
  const note = encodeSummaryNote({
    outcome: "upstream_error",
    usage: null,
    finishReasons: Array.from({ length: 1_000 }, () => "\u0001".repeat(1_000)),
    detail: "\u0001".repeat(100_000),
  });
  const decoded = decodeNote(note);
  assert(decoded.kind === "summary");
  assertEquals(decoded.summary.finishReasons.length, 128);
});

Deno.test("decodeNote refuses what is no note", async (t) => {
  const cases: [string, string][] = [
    ["no JSON", "{"],
    ["a list", "[]"],
    ["null", "null"],
    ["too long", JSON.stringify({ outcome: "ok", usage: null, finish_reasons: [], x: "x".repeat(70_000) })],
    ["status too low", '{"v":1,"status":100,"content_type":"a"}'],
    ["status too high", '{"v":1,"status":600,"content_type":"a"}'],
    ["status fractional", '{"v":1,"status":200.5,"content_type":"a"}'],
    ["another version", '{"v":2,"status":200,"content_type":"a"}'],
    ["content type with a line end", '{"v":1,"status":200,"content_type":"a\\r\\nb: c"}'],
    ["content type missing", '{"v":1,"status":200}'],
    ["outcome unknown", '{"outcome":"fine","usage":null,"finish_reasons":[]}'],
    ["outcome not the producer's", '{"outcome":"cancelled","usage":null,"finish_reasons":[]}'],
    ["usage text", '{"outcome":"ok","usage":"1","finish_reasons":[]}'],
    ["usage negative", '{"outcome":"ok","usage":{"prompt_tokens":-1},"finish_reasons":[]}'],
    ["reasons missing", '{"outcome":"ok","usage":null}'],
    ["reasons of numbers", '{"outcome":"ok","usage":null,"finish_reasons":[1]}'],
  ];
  for (const [name, text] of cases) {
    await t.step(name, () => {
      assertEquals(assertThrows(() => decodeNote(text), TokenplaneError).code, "protocol");
    });
  }
});
