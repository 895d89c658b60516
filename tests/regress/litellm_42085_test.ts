/**
 * BerriAI/litellm#42085 and open-webui/open-webui#29628: a worker died in mid-answer. One relay took the end of input
 * for the end of the message and made up a finish reason; another just stopped. Fails when the outcome of a cut stream
 * is `ok`, when bytes are added to it, or when a server that keeps its connection open after `[DONE]` keeps the client.
 */
import { assert, assertEquals } from "@std/assert";
import { systemClock } from "../../src/clock.ts";
import type { Outcome } from "../../src/outcome.ts";
import { OpenAiEngine } from "../../src/worker/engines/openai.ts";
import { type BodyEnd, type MissingDone, StreamObserver } from "../../src/worker/engines/stream_observer.ts";
import { chatRequest, RecordingOutput } from "../support/recording_output.ts";
import { type ScriptedConnection, ScriptedServer } from "../support/scripted_server.ts";

const CONTENT = 'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n';
const FINISH = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const ERROR = 'data: {"error":{"message":"out of memory","code":500},"choices":[]}\n\n';
const DONE = "data: [DONE]\n\n";
const TWO = CONTENT + CONTENT;

async function run(
  answer: (connection: ScriptedConnection, output: RecordingOutput) => Promise<void>,
  missingDone: MissingDone = "truncated",
): Promise<RecordingOutput> {
  const output = new RecordingOutput();
  await using server = new ScriptedServer(async (connection) => {
    await connection.readRequest();
    await answer(connection, output);
  });
  const engine = new OpenAiEngine({ clock: systemClock, url: server.url, missingDone });
  engine.run(chatRequest(), output);
  await output.ended;
  assertEquals(engine.running, 0);
  await engine.close();
  return output;
}

/** Resolves when the output has got as many bytes. */
function received(output: RecordingOutput, bytes: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  output.onData = () => output.bytes().length >= bytes && resolve();
  return promise;
}

Deno.test("OpenAiEngine never calls a stream that was cut a success", async (t) => {
  const cases: [string, string, boolean, Outcome][] = [
    ["i: clean close without finish reason or [DONE]", TWO, true, "truncated"],
    ["ii: connection lost", TWO, false, "truncated"],
    ["ii: connection lost behind the finish reason", TWO + FINISH, false, "truncated"],
    ["iii: clean close inside an event", TWO + 'data: {"choices":[{"in', true, "truncated"],
    ["iii: clean close inside the finish event", TWO + FINISH.slice(0, -2), true, "truncated"],
    ["iv: error in band", TWO + ERROR, true, "upstream_error"],
    ["iv: error in band, then [DONE]", TWO + ERROR + DONE, true, "upstream_error"],
    ["iv: error event", `${TWO}event: error\ndata: {"detail":"x"}\n\n`, true, "upstream_error"],
    ["iv: error field", `${TWO}error: {"code":500}\n\n`, true, "upstream_error"],
    ["v: finish reason without [DONE]", TWO + FINISH, true, "truncated"],
    ["whole", TWO + FINISH + DONE, true, "ok"],
    [
      "[DONE] inside text is no end",
      TWO + 'data: {"choices":[{"delta":{"content":"[DONE]"}}]}\n\n',
      true,
      "truncated",
    ],
  ];
  for (const [name, text, isClean, outcome] of cases) {
    await t.step(name, async () => {
      const output = await run(async (connection, output) => {
        await connection.start();
        const all = received(output, text.length);
        await connection.chunk(text);
        await all;
        if (isClean) await connection.finish();
      });
      assertEquals(output.text(), text);
      assertEquals(output.status, 200);
      assertEquals(output.summary?.outcome, outcome);
      assertEquals(outcome === "ok", output.summary?.detail === undefined);
      assertEquals(output.summary?.finishReasons, text.includes('"stop"') ? ["stop"] : []);
    });
  }
});

Deno.test("OpenAiEngine calls a stream that was reset truncated, and a reset before the head a bad gateway", async () => {
  for (const isHeadSent of [true, false]) {
    const output = new RecordingOutput();
    await using server = new ScriptedServer(async (connection) => {
      await connection.read(1); // the rest stays unread, so that closing is a reset
      if (!isHeadSent) return;
      await connection.start();
      const all = received(output, TWO.length);
      await connection.chunk(TWO);
      await all;
    });
    const engine = new OpenAiEngine({ clock: systemClock, url: server.url });
    engine.run(chatRequest(), output);
    const { outcome } = await output.ended;
    assertEquals([output.status, outcome], isHeadSent ? [200, "truncated"] : [502, "upstream_error"]);
    if (isHeadSent) assertEquals(output.text(), TWO);
    await engine.close();
  }
});

Deno.test("OpenAiEngine lets a setting decide about a finish reason without [DONE], and says so", async () => {
  const output = await run(async (connection) => {
    await connection.start();
    await connection.chunk(TWO + FINISH);
    await connection.finish();
  }, "ok");
  assertEquals(output.summary?.outcome, "ok");
  assert(output.summary?.detail?.includes("[DONE]"));
});

Deno.test("OpenAiEngine judges a body framed by its connection's end the same way", async () => {
  for (const [text, outcome] of [[TWO, "truncated"], [TWO + FINISH + DONE, "ok"]] as const) {
    const output = await run((connection) =>
      connection.write(`HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n${text}`)
    );
    assertEquals([output.text(), output.summary?.outcome], [text, outcome]);
  }
});

Deno.test("OpenAiEngine is done within 100 ms of [DONE] although the server keeps its socket open", async (t) => {
  for (const done of [DONE, "data: [DONE]\n", "data: [DONE]"]) {
    await t.step(JSON.stringify(done), async () => {
      const gone = Promise.withResolvers<void>();
      let sentAt = 0;
      const output = new RecordingOutput();
      await using server = new ScriptedServer(async (connection) => {
        await connection.readRequest();
        await connection.start();
        await connection.chunk(TWO + FINISH);
        sentAt = performance.now();
        await connection.chunk(done);
        await connection.gone();
        gone.resolve();
      });
      const engine = new OpenAiEngine({ clock: systemClock, url: server.url });
      engine.run(chatRequest(), output);
      const summary = await output.ended;
      const took = performance.now() - sentAt;
      assertEquals(summary.outcome, "ok");
      assert(took < 100, `it took ${took} ms`);
      await gone.promise;
      assertEquals(output.text(), TWO + FINISH + done);
      await engine.close();
    });
  }
});

Deno.test("StreamObserver says ok only of a stream that said so itself", () => {
  const parts = ["", CONTENT, FINISH, ERROR, "data: {", ": ping\n\n"];
  for (const first of parts) {
    for (const second of parts) {
      for (const end of ["clean", "broken"] satisfies BodyEnd[]) {
        const observer = new StreamObserver(65_536, "truncated");
        observer.feed(new TextEncoder().encode(first + second));
        assert(observer.summarise(end).outcome !== "ok", JSON.stringify([first, second, end]));
      }
    }
  }
});
