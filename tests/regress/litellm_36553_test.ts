/**
 * BerriAI/litellm#36553 and maximhq/bifrost#191: with usage requested the last chunk has an empty choices list and
 * comes after the one with the finish reason. One reader indexed the first choice without looking and failed; another
 * stopped at the finish reason and counted zero tokens. Fails on zero, on doubled usage, or on a changed stream.
 */
import { assertEquals } from "@std/assert";
import type { TokenUsage } from "../../src/outcome.ts";
import { StreamObserver } from "../../src/worker/engines/stream_observer.ts";
import { everyCut } from "../support/sse_feeding.ts";

const HI = '{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}],"usage":null}';
const STOP = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}';
const TAIL = '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}';
const EIGHT: TokenUsage = { promptTokens: 7, completionTokens: 1, totalTokens: 8 };

function withUsage(event: string, completion: number): string {
  const usage = { prompt_tokens: 7, completion_tokens: completion, total_tokens: 7 + completion };
  return JSON.stringify({ ...JSON.parse(event), usage });
}

const CASES: [string, string[], TokenUsage | null][] = [
  ["usage on a tail chunk", [HI, STOP, TAIL, "[DONE]"], EIGHT],
  ["usage on the finish chunk and again on the tail", [HI, withUsage(STOP, 1), TAIL, "[DONE]"], EIGHT],
  ["usage on every chunk, running totals", [withUsage(HI, 0), withUsage(STOP, 1), TAIL, "[DONE]"], EIGHT],
  ["no usage at all", [HI, STOP, "[DONE]"], null],
  ["a first chunk with empty choices", [
    '{"choices":[],"prompt_filter_results":[]}',
    HI,
    STOP,
    TAIL,
    "[DONE]",
  ], EIGHT],
  ["no choices list at all", ['{"object":"x"}', HI, STOP, TAIL, "[DONE]"], EIGHT],
  [
    "choices of another type",
    ['{"choices":null,"error":null,"usage":null}', HI, STOP, TAIL, "[DONE]"],
    EIGHT,
  ],
  ["a total that is missing", [
    HI,
    STOP,
    '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1}}',
    "[DONE]",
  ], EIGHT],
  ["usage that is nonsense behind usage", [
    HI,
    STOP,
    TAIL,
    '{"choices":[],"usage":{"prompt_tokens":-1}}',
    "[DONE]",
  ], EIGHT],
];

Deno.test("StreamObserver counts usage exactly once, wherever it is", async (t) => {
  for (const [name, events, usage] of CASES) {
    await t.step(name, () => {
      const bytes = new TextEncoder().encode(events.map((event) => `data: ${event}\n\n`).join(""));
      for (const { name, pieces } of everyCut(bytes)) {
        const observer = new StreamObserver(65_536, "truncated");
        for (const piece of pieces) observer.feed(piece);
        assertEquals(observer.summarise("clean"), { outcome: "ok", usage, finishReasons: ["stop"] }, name);
      }
    });
  }
});

Deno.test("StreamObserver takes a text about usage for what it is", () => {
  const said = JSON.stringify({
    choices: [{ index: 0, delta: { content: '"usage": {"prompt_tokens": 99}, "finish_reason": "x"' } }],
  });
  const observer = new StreamObserver(65_536, "truncated");
  observer.feed(new TextEncoder().encode(`data: ${said}\n\ndata: ${STOP}\n\ndata: [DONE]\n\n`));
  assertEquals(observer.summarise("clean"), { outcome: "ok", usage: null, finishReasons: ["stop"] });
});

Deno.test("StreamObserver reports the finish reasons of several choices, each once", () => {
  const observer = new StreamObserver(65_536, "truncated");
  const finish = (index: number, reason: string) =>
    `data: {"choices":[{"index":${index},"delta":{},"finish_reason":"${reason}"}]}\n\n`;
  observer.feed(
    new TextEncoder().encode(
      finish(1, "length") + finish(0, "stop") + finish(1, "length") + "data: [DONE]\n\n",
    ),
  );
  assertEquals(observer.summarise("clean").finishReasons, ["stop", "length"]);
});
