import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { EventTail } from "../../src/frontend/event_tail.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

const TAILS: readonly (readonly [string, boolean, boolean])[] = [
  ["", true, false],
  ["data: 1\n\n", true, false],
  ["data: 1\r\n\r\n", true, false],
  ["data: 1\r\r", true, false],
  ["data: 1\n\r\n", true, false],
  ["data: 1\n", false, false],
  ["data: 1\r\n", false, false],
  ["data: 1\r", false, false],
  ["data: 1", false, false],
  ["\n", true, false],
  [": ping\n\n", true, false],
  ["data: 1\n\ndata: [DONE]\n\n", true, true],
  ["data: 1\r\n\r\ndata:[DONE]\r\n\r\n", true, true],
  ["data: 1\n\ndata: [DONE]", false, true],
  ["data: 1\n\ndata: [DONE]\n", false, true],
  ["data: [DONE]\n\n", true, true],
  ['data: {"text":"data: [DONE]"}\n\n', true, false],
  ["data: the word data: [DONE]\n\n", true, false],
  ["data: [DONE]x\n\n", true, false],
  ["data: 1\n\n[DONE]\n\n", true, false],
  ["data: 1\n\ndata: [DONE]\n\n\n", true, true],
  ["data: 1\n\ndata: [DONE]\n\n\r\n", true, true],
  ["data: 1\n\ndata: 2\n\n\n\n", true, false],
];

Deno.test("EventTail knows boundaries and [DONE], fed whole, at every split point and byte by byte", () => {
  for (const [sent, isAtBoundary, isDone] of TAILS) {
    const all = bytes(sent);
    for (let split = 0; split <= all.length; split++) {
      const tail = new EventTail();
      tail.push(all, 0, split);
      tail.push(all, split, all.length);
      assertEquals(
        [tail.isAtBoundary, tail.isDone],
        [isAtBoundary, isDone],
        `${JSON.stringify(sent)} at ${split}`,
      );
    }
    const tail = new EventTail();
    for (let at = 0; at < all.length; at++) tail.push(all, at, at + 1);
    assertEquals([tail.isAtBoundary, tail.isDone], [isAtBoundary, isDone], JSON.stringify(sent));
  }
});

Deno.test("EventTail says of any bytes in any pieces what a look at all of them says", () => {
  const alphabet = fc.constantFrom("\n", "\r", "a", "data:", "data: [DONE]", " ");
  fc.assert(fc.property(fc.array(fc.array(alphabet, { maxLength: 6 }), { maxLength: 8 }), (pieces) => {
    const tail = new EventTail();
    let all = "";
    for (const piece of pieces) {
      const data = bytes(piece.join(""));
      tail.push(data, 0, data.length);
      all += piece.join("");
    }
    const rest = all.replace(/(\r\n|\r|\n)$/, "");
    assertEquals(tail.isAtBoundary, all === "" || (rest !== all && (rest === "" || /[\r\n]$/.test(rest))));
  }));
});
