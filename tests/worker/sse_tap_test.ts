import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { SseTap } from "../../src/worker/engines/sse_tap.ts";
import { everyCut, FRAMINGS } from "../support/sse_feeding.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const DONE = encoder.encode("[DONE]");

function tapInto(events: string[], max = 65_536, errors: string[] = []): SseTap {
  return new SseTap({
    onEvent: (bytes, start, end, terminated) =>
      events.push((terminated ? "" : "unterminated ") + decoder.decode(bytes.subarray(start, end))),
    onErrorLine: () => errors.push("error"),
  }, max);
}

/** The oracle: the whole text at once, by the letter of the specification. */
function naiveEvents(text: string): string[] {
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\r|\n/);
  const rest = lines.pop();
  const events: string[] = [];
  let data: string[] = [];
  for (const line of lines) {
    if (line === "") {
      if (data.length > 0) events.push(data.join("\n"));
      data = [];
    } else if (line === "data") data.push("");
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  if (rest === "data") data.push("");
  else if (rest?.startsWith("data:")) data.push(rest.slice(5).replace(/^ /, ""));
  if (data.length > 0) events.push("unterminated " + data.join("\n"));
  return events;
}

Deno.test("SseTap finds the same events in every framing and however it is cut", async (t) => {
  const events = ['{"a":"\u{1F600} 你好"}', "two", "", "trailing ", "[DONE]"];
  for (const { name, frame } of FRAMINGS) {
    await t.step(name, () => {
      const bytes = encoder.encode(frame(events));
      for (const { name, pieces } of everyCut(bytes)) {
        const seen: string[] = [];
        const tap = tapInto(seen);
        for (const piece of pieces) {
          tap.feed(piece);
          piece.fill(0x21); // what was not copied is gone now
        }
        assertEquals(tap.isOpen, false, name);
        tap.finish();
        assertEquals(seen, events, name);
      }
    });
  }
});

Deno.test("SseTap reads lines by the letter", async (t) => {
  const cases: [string, string, string[]][] = [
    ["several data lines are joined by LF", "data: a\ndata:b\ndata\ndata: c\n\n", ["a\nb\n\nc"]],
    ["only one space is taken off", "data:  a\n\n", [" a"]],
    ["a data line without a colon is empty", "data\n\n", [""]],
    ["blank lines alone are nothing", "\n\n\r\n\r\r\n\n", []],
    ["an event without data is nothing", "event: x\nid: 1\n\n", []],
    ["names that only begin with data are others", "database: x\ndata : x\n\n", []],
    ["a comment inside an event is nothing", "data: a\n: data: b\ndata: c\n\n", ["a\nc"]],
    ["the last event without its blank line counts, flagged", "data: a\n\ndata: b\n", [
      "a",
      "unterminated b",
    ]],
    ["the last line without its end counts, flagged", "data: a\n\ndata: b", ["a", "unterminated b"]],
    ["a BOM counts only at the start", "data: a\n\n\ufeffdata: b\n\n", ["a"]],
    ["a lone CR at the very end ends its line", "data: a\r\r", ["a"]],
    ["CR, CRLF is two line ends", "data: a\r\r\ndata: b\r\n\r\n", ["a", "b"]],
  ];
  for (const [name, text, expected] of cases) {
    await t.step(name, () => {
      for (const { pieces } of everyCut(encoder.encode(text))) {
        const seen: string[] = [];
        const tap = tapInto(seen);
        for (const piece of pieces) tap.feed(piece);
        tap.finish();
        assertEquals(seen, expected);
      }
    });
  }
});

Deno.test("SseTap agrees with a naive reader on any text cut anywhere", () => {
  const token = fc.constantFrom(
    "data",
    ":",
    " ",
    "\n",
    "\r",
    "\r\n",
    "a",
    "é",
    "data: x",
    "event: error",
    "\n\n",
  );
  fc.assert(
    fc.property(
      fc.array(token, { maxLength: 30 }),
      fc.array(fc.nat(40), { maxLength: 5 }),
      (tokens, cuts) => {
        const text = tokens.join("");
        const bytes = encoder.encode(text);
        const seen: string[] = [];
        const tap = tapInto(seen);
        let from = 0;
        for (const cut of cuts.map((at) => Math.min(at, bytes.length)).sort((a, b) => a - b)) {
          tap.feed(bytes.slice(from, cut));
          from = cut;
        }
        tap.feed(bytes.slice(from));
        tap.finish();
        assertEquals(seen, naiveEvents(text));
      },
    ),
    { numRuns: 500 },
  );
});

Deno.test("SseTap reports error lines", async (t) => {
  const cases: [string, string, number][] = [
    ["event: error", "event: error\ndata: {}\n\n", 1],
    ["event:error", "event:error\ndata: {}\n\n", 1],
    ["error field", 'error: {"code":500}\n\n', 1],
    ["another event", "event: errors\nevent\n\n", 0],
    ["error in data", "data: event: error\n\n", 0],
  ];
  for (const [name, text, count] of cases) {
    await t.step(name, () => {
      const errors: string[] = [];
      tapInto([], 100, errors).feed(encoder.encode(text));
      assertEquals(errors.length, count);
    });
  }
});

Deno.test("SseTap tells when an open event holds exactly a value", async (t) => {
  const cases: [string, string[], boolean][] = [
    ["a whole line", ["data: [DONE]\n"], true],
    ["a line without its end", ["data: [DO", "NE]"], true],
    ["without a space", ["data:[DONE]"], true],
    ["nothing", [""], false],
    ["half of it", ["data: [DON"], false],
    ["more than it", ["data: [DONE] x"], false],
    ["two lines", ["data: a\n", "data: [DONE]\n"], false],
    ["a line behind it", ["data: [DONE]\n", "data"], false],
    ["inside text", ['data: "[DONE]"\n'], false],
    ["when it is over", ["data: [DONE]\n\n"], false],
  ];
  for (const [name, pieces, expected] of cases) {
    await t.step(name, () => {
      const tap = tapInto([]);
      for (const piece of pieces) tap.feed(encoder.encode(piece));
      assertEquals(tap.holds(DONE), expected);
    });
  }
});

Deno.test("SseTap gives up on a line or event over the limit and on nothing under it, however it is cut", () => {
  const limit = 40;
  const cases: [string, boolean][] = [
    [`data: ${"x".repeat(limit - 6)}\n\n`, false],
    [`data: ${"x".repeat(limit - 5)}\n\n`, true],
    [`: ${"x".repeat(limit)}\n\n`, true],
    [`data: ${"x".repeat(14)}\ndata: ${"x".repeat(20)}\n\n`, false],
    [`data: ${"x".repeat(14)}\ndata: ${"x".repeat(21)}\n\n`, true],
  ];
  for (const [text, over] of cases) {
    for (const { name, pieces } of everyCut(encoder.encode(text))) {
      const seen: string[] = [];
      const tap = tapInto(seen, limit);
      for (const piece of pieces) tap.feed(piece);
      assertEquals(tap.overflowed, over, `${JSON.stringify(text)} ${name}`);
      assertEquals(seen.length, over ? 0 : 1);
    }
  }
});

Deno.test("SseTap is silent once it gave up", () => {
  const seen: string[] = [];
  const tap = tapInto(seen, 20);
  tap.feed(encoder.encode(`data: ${"x".repeat(20)}`));
  tap.feed(encoder.encode("\n\ndata: a\n\n"));
  tap.finish();
  assert(tap.overflowed);
  assertEquals(seen, []);
});
