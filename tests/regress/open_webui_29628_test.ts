/**
 * open-webui/open-webui#29628 and BerriAI/litellm#42085, at the client's end: a worker died in mid-answer, and the client
 * got a 200 that simply stopped, or a made-up finish reason. Fails when a cut stream counts as `ok`, lacks its error event
 * and terminator, leaves an event open, or carries anything that the worker did not send beside those.
 */
import { assertEquals } from "@std/assert";
import type { ScriptedStream } from "../support/scripted_plane.ts";
import { parseRaw, rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";

const CONTENT = 'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n';
const FINISH = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const ERROR = 'data: {"error":{"message":"out of memory","code":500},"choices":[]}\n\n';
const DONE = "data: [DONE]\n\n";

const CASES: readonly (readonly [string, string, (stream: ScriptedStream) => void, string, string])[] = [
  ["i: a clean close", CONTENT, (stream) => stream.summary("truncated", []).end(), "truncated", ""],
  ["ii: a reset at the engine", CONTENT, (stream) => stream.summary("truncated", []).end(), "truncated", ""],
  ["ii: the worker itself is killed", CONTENT, (stream) => stream.drop(), "dropped", ""],
  [
    "iii: a close inside an event",
    CONTENT.slice(0, -9),
    (stream) => stream.summary("truncated", []).end(),
    "truncated",
    "\n\n",
  ],
  ["iii: a close behind one line end", CONTENT.slice(0, -1), (stream) => stream.drop(), "dropped", "\n\n"],
  [
    "iv: an error in band",
    ERROR,
    (stream) => stream.summary("upstream_error", []).end(),
    "upstream_error",
    "",
  ],
  [
    "v: a finish reason without [DONE]",
    FINISH,
    (stream) => stream.summary("truncated").end(),
    "truncated",
    "",
  ],
];

for (const [name, last, end, outcome, blank] of CASES) {
  Deno.test(`Frontend shows its client that a stream was cut, ${name}`, () =>
    withFrontend({}, async (harness) => {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat());
      const stream = await harness.nextStream();
      stream.head().data(CONTENT).flush().data(last).flush();
      end(stream);
      stream.flush();
      const { body } = parseRaw(await client.until((text) => text.endsWith("\r\n0\r\n\r\n")))!;
      assertEquals(body.startsWith(CONTENT + last + blank + 'data: {"error":{'), true, body);
      assertEquals(body.endsWith(`"code":"${outcome}"}}\n\n${DONE}`), true, body);
      assertEquals(body.split("finish_reason").length, (CONTENT + last).split("finish_reason").length);
      assertEquals(harness.outcomes(), { [outcome]: 1 });
      await client.close();
    }));
}

Deno.test("Frontend adds nothing behind an error and [DONE] of the engine's own", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data(CONTENT + ERROR).flush().data("data: [DO").flush().data("NE]\n\n").summary(
      "upstream_error",
      [],
    );
    stream.end().flush();
    const { body } = parseRaw(await client.until((text) => text.endsWith("\r\n0\r\n\r\n")))!;
    assertEquals(body, CONTENT + ERROR + DONE);
    assertEquals(harness.outcomes(), { upstream_error: 1 });
    await client.close();
  }));
