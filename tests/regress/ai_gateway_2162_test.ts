/**
 * envoyproxy/ai-gateway#2162 (kin: #1398, higress-group/higress#4146): requests succeeded, their token usage was
 * missing. Each piece of a body was parsed alone, so an event cut before its blank line was skipped; CRLF framing was
 * never matched. Fails when a single way of cutting a single framing loses the usage.
 */
import { assertEquals } from "@std/assert";
import { StreamObserver } from "../../src/worker/engines/stream_observer.ts";
import { everyCut, FRAMINGS } from "../support/sse_feeding.ts";

const EVENTS = [
  '{"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}],"usage":null}',
  '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
  '{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}',
  "[DONE]",
];

Deno.test("StreamObserver sees usage, finish reason and end in every framing cut at every byte", async (t) => {
  for (const { name, frame } of FRAMINGS) {
    await t.step(name, () => {
      for (const { name, pieces } of everyCut(new TextEncoder().encode(frame(EVENTS)))) {
        const observer = new StreamObserver(65_536, "truncated");
        for (const piece of pieces) observer.feed(piece);
        assertEquals(observer.isDone, true, name);
        assertEquals(observer.summarise("clean"), {
          outcome: "ok",
          usage: { promptTokens: 7, completionTokens: 1, totalTokens: 8 },
          finishReasons: ["stop"],
        }, name);
      }
    });
  }
});
