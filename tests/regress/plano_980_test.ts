/**
 * katanemo/plano#980: a network chunk that ended inside a CJK character was turned into text by itself, refused as bad
 * UTF-8 and dropped. Fails when a character cut anywhere is lost or replaced, when a byte that really is bad changes
 * the relayed bytes, or when a BOM hides the first event.
 */
import { assert, assertEquals } from "@std/assert";
import { systemClock } from "../../src/clock.ts";
import { OpenAiEngine } from "../../src/worker/engines/openai.ts";
import { StreamObserver } from "../../src/worker/engines/stream_observer.ts";
import { chatRequest, RecordingOutput } from "../support/recording_output.ts";
import { ScriptedServer } from "../support/scripted_server.ts";
import { everyCut } from "../support/sse_feeding.ts";

const encoder = new TextEncoder();
const USAGE = { promptTokens: 7, completionTokens: 1, totalTokens: 8 };

/** Usage and text in one event, so that the tap has to decode the characters. */
function eventWith(content: Uint8Array): Uint8Array {
  const before = encoder.encode('data: {"choices":[{"index":0,"delta":{"content":"');
  const after = encoder.encode(
    '"},"finish_reason":"\u{1F600}"}],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}\n\n' +
      "data: [DONE]\n\n",
  );
  return new Uint8Array([...before, ...content, ...after]);
}

async function relay(bytes: Uint8Array, pieceBytes: number): Promise<RecordingOutput> {
  await using server = new ScriptedServer(async (connection) => {
    while (await connection.readRequest()) {
      await connection.start();
      for (let at = 0; at < bytes.length; at += pieceBytes) {
        await connection.chunk(bytes.slice(at, at + pieceBytes));
      }
      await connection.finish();
    }
  });
  const engine = new OpenAiEngine({ clock: systemClock, url: server.url });
  const output = new RecordingOutput();
  engine.run(chatRequest(), output);
  await output.ended;
  await engine.close();
  return output;
}

Deno.test("StreamObserver reads characters that are cut anywhere", () => {
  for (const { name, pieces } of everyCut(eventWith(encoder.encode("\u{1F600} 你好")))) {
    const observer = new StreamObserver(65_536, "truncated");
    for (const piece of pieces) observer.feed(piece);
    assertEquals(observer.summarise("clean"), {
      outcome: "ok",
      usage: USAGE,
      finishReasons: ["\u{1F600}"],
    }, name);
  }
});

Deno.test("StreamObserver marks an event with a bad byte and goes on", () => {
  for (const { name, pieces } of everyCut(eventWith(new Uint8Array([0xc3, 0x28])))) {
    const observer = new StreamObserver(65_536, "truncated");
    for (const piece of pieces) observer.feed(piece);
    const summary = observer.summarise("clean");
    assertEquals([summary.outcome, summary.usage, summary.finishReasons], ["ok", null, []], name);
    assert(summary.detail?.includes("could not be decoded"), name);
  }
});

Deno.test("OpenAiEngine relays cut characters, bad bytes and a BOM byte for byte", async (t) => {
  const cases: [string, Uint8Array][] = [
    ["characters", eventWith(encoder.encode("\u{1F600} 你好"))],
    ["a bad byte", eventWith(new Uint8Array([0xc3, 0x28]))],
    ["a BOM", new Uint8Array([0xef, 0xbb, 0xbf, ...eventWith(encoder.encode("hi"))])],
  ];
  for (const [name, bytes] of cases) {
    for (const pieceBytes of [1, 2, 3, bytes.length]) {
      await t.step(`${name}, ${pieceBytes} bytes at a time`, async () => {
        const output = await relay(bytes, pieceBytes);
        assertEquals(output.bytes(), bytes);
        assertEquals(output.summary?.outcome, "ok");
        if (name !== "a bad byte") assertEquals(output.summary?.usage, USAGE);
      });
    }
  }
});
