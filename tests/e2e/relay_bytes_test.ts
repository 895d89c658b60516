/** An OpenAI-compatible server behind a worker: its bytes, statuses and errors reach the client as they are. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { concat } from "../support/concat.ts";
import OpenAI from "openai";
import { LiveSystem } from "../support/live_system.ts";
import { type ScriptedConnection, ScriptedServer } from "../support/scripted_server.ts";
import { FRAMINGS } from "../support/sse_feeding.ts";

const encoder = new TextEncoder();
const EVENTS = [
  '{"id":"1","choices":[{"index":0,"delta":{"role":"assistant","content":"\u4f60\u597d \u{1F600}"},"finish_reason":null}],"usage":null}',
  '{"id":"1","choices":[{"index":0,"delta":{"content":"\\u0000 \\ud83d"},"finish_reason":null}]}',
  '{"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
  '{"id":"1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}',
  "[DONE]",
];

/** A system in front of a server that answers every request by `answer`. */
async function withServer(
  answer: (connection: ScriptedConnection) => Promise<void>,
  test: (system: LiveSystem, server: ScriptedServer) => Promise<void>,
): Promise<void> {
  await using server = new ScriptedServer(async (connection) => {
    while (await connection.readRequest()) await answer(connection);
  });
  await using system = await LiveSystem.start();
  await system.addOpenAi(server.url);
  await test(system, server);
  await system.quiet();
}

const chat = (fields: Record<string, unknown> = {}) => ({
  model: "m",
  stream: true,
  messages: [{ role: "user", content: "hi" }],
  ...fields,
});

for (const { name, frame } of FRAMINGS) {
  Deno.test(`the path relays ${name} byte for byte, cut at every byte`, async () => {
    const whole = encoder.encode(frame(EVENTS));
    let cut = 0;
    await withServer(async (connection) => {
      await connection.start();
      if (cut === 0) { for (const byte of whole) await connection.chunk(new Uint8Array([byte])); }
      else {
        await connection.chunk(whole.slice(0, cut));
        await connection.chunk(whole.slice(cut));
      }
      await connection.finish();
    }, async (system) => {
      // Every cut of the first two events, where all the kinds of bytes are, and a sample of the rest.
      const step = (at: number) => at < 130 ? 1 : 17;
      let runs = 0;
      for (; cut < whole.length; cut += step(cut)) {
        const response = await system.post("/v1/chat/completions", chat());
        assertEquals(response.headers.get("content-type"), "text/event-stream");
        assertEquals(new Uint8Array(await response.arrayBuffer()), whole, `cut at ${cut}`);
        runs++;
      }
      assertEquals(system.outcomes(), { ok: runs });
      assertEquals(system.frontend.stats.promptTokens, 7 * runs);
      assertEquals(system.frontend.stats.completionTokens, runs);
    });
  });
}

Deno.test("the path relays bytes that are no UTF-8 and no events", async () => {
  const bytes = concat([
    new Uint8Array([0xc3, 0x28, 0xff, 0x00, 0x0a, 0x0a]),
    encoder.encode(`nonsense\n\n${EVENTS.map((data) => `data: ${data}\n\n`).join("")}`),
  ]);
  await withServer(async (connection) => {
    await connection.start("text/event-stream; charset=utf-8");
    await connection.chunk(bytes);
    await connection.finish();
  }, async (system) => {
    const response = await system.post("/v1/chat/completions", chat());
    assertEquals(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
    assertEquals(new Uint8Array(await response.arrayBuffer()), bytes);
    assertEquals(system.outcomes(), { ok: 1 });
  });
});

Deno.test("the path sends the engine the client's body byte for byte, with the engine's key in place of the client's", async () => {
  const bodies: string[] = [];
  const heads: string[] = [];
  await using server = new ScriptedServer(async (connection) => {
    while (await connection.readRequest()) {
      bodies.push(connection.body);
      heads.push(connection.head);
      await connection.answer("200 OK", "application/json", "{}");
    }
  });
  await using system = await LiveSystem.start({ apiKeys: ["client-key"] });
  await system.addOpenAi(server.url, { apiKey: "engine-key" });
  const body =
    '{ "model":"m",  "messages":[{"role":"user","content":"\\u00e9 \u4f60"}],\n "unknown":1e400 ,"seed":12345678901234567890}';
  const response = await system.post("/v1/chat/completions", null, {
    body,
    headers: {
      "content-type": "application/json",
      authorization: "Bearer client-key",
      traceparent: "00-1-2-01",
    },
  });
  assertEquals(await response.text(), "{}");
  assertEquals(bodies, [body]);
  assert(heads[0]!.startsWith("POST /v1/chat/completions HTTP/1.1\r\n"));
  assert(/^authorization: Bearer engine-key$/im.test(heads[0]!));
  assert(/^traceparent: 00-1-2-01$/im.test(heads[0]!));
  assert(!heads[0]!.includes("client-key"));
});

Deno.test("the path keeps status, type and body of the engine's errors", async (t) => {
  const cases: [string, string, string, unknown][] = [
    [
      "400 Bad Request",
      "application/json",
      '{"error":{"message":"no \u00fc","code":7}}',
      OpenAI.BadRequestError,
    ],
    ["404 Not Found", "application/json", '{"detail":"no such adapter"}', OpenAI.NotFoundError],
    [
      "422 Unprocessable Entity",
      "application/json; charset=utf-8",
      '{"detail":[]}',
      OpenAI.UnprocessableEntityError,
    ],
    ["429 Too Many Requests", "application/json", '{"error":{"message":"slow down"}}', OpenAI.RateLimitError],
    ["500 Internal Server Error", "text/plain", "out of memory", OpenAI.InternalServerError],
    ["503 Service Unavailable", "text/html", "<h1>busy</h1>", OpenAI.InternalServerError],
  ];
  for (const [status, type, body, errorClass] of cases) {
    await t.step(status, async () => {
      await withServer((connection) => connection.answer(status, type, body), async (system) => {
        for (const stream of [true, false]) {
          const response = await system.post("/v1/chat/completions", chat({ stream }));
          assertEquals(response.status, Number(status.slice(0, 3)));
          assertEquals(response.headers.get("content-type"), type);
          assertEquals(await response.text(), body);
        }
        const error = await assertRejects(
          () => system.client().chat.completions.create(chat() as never),
          OpenAI.APIError,
        );
        assertEquals(error.constructor, errorClass);
        assertEquals(system.outcomes(), { [error.status! < 500 ? "ok" : "upstream_error"]: 3 });
      });
    });
  }
});

Deno.test("the path answers with a real status when the engine cannot be reached or says nothing", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const dead = `http://127.0.0.1:${listener.addr.port}/v1`;
  listener.close();
  await using mute = new ScriptedServer(async (connection) => {
    await connection.readRequest();
    connection.close();
  });
  await using system = await LiveSystem.start();
  await system.addOpenAi(dead, {}, ["dead"]);
  await system.addOpenAi(mute.url, {}, ["mute"]);
  for (const [model, status] of [["dead", 503], ["mute", 502]] as const) {
    for (const stream of [true, false]) {
      const response = await system.post("/v1/chat/completions", chat({ model, stream }));
      assertEquals(response.status, status);
      assertEquals(typeof (await response.json()).error.message, "string");
    }
  }
  await system.quiet();
});
