/** Large prompts, large answers, many requests on one connection. */
import { assert, assertEquals } from "@std/assert";
import { parseRaw, RawClient } from "../support/frontend_harness.ts";
import { LiveSystem } from "../support/live_system.ts";
import { ScriptedServer } from "../support/scripted_server.ts";

const encoder = new TextEncoder();

Deno.test("a prompt of 1 MiB, and one at the limit, reach the engine whole", async () => {
  const lengths: number[] = [];
  await using server = new ScriptedServer(async (connection) => {
    while (await connection.readRequest()) {
      lengths.push(connection.body.length);
      const isWhole = connection.body.endsWith('end"}]}');
      await connection.answer("200 OK", "application/json", isWhole ? '{"choices":[]}' : "cut");
    }
  });
  const limit = 3 * 1024 * 1024;
  await using system = await LiveSystem.start({ maxBodyBytes: limit });
  await system.addOpenAi(server.url);
  const frame = JSON.stringify({ model: "m", messages: [{ role: "user", content: "end" }] });
  // Around the largest message that is sent at once, one that is pulled in chunks, and the limit.
  const sizes = [262_000, 262_144, 263_000, 1_048_576, limit];
  for (const size of sizes) {
    const body = frame.replace("end", "x".repeat(size - frame.length) + "end");
    assertEquals(body.length, size);
    const response = await system.post("/v1/chat/completions", null, { body });
    assertEquals([response.status, await response.text()], [200, '{"choices":[]}']);
  }
  assertEquals(lengths, sizes);
  const over = await system.post("/v1/chat/completions", null, {
    body: frame.replace("end", "x".repeat(limit)),
  });
  assertEquals(over.status, 413);
  await over.body?.cancel();
  assertEquals(lengths.length, sizes.length);
  await system.quiet();
});

Deno.test("large prompts and streams do not stop one another", async () => {
  await using system = await LiveSystem.start();
  await system.addMock();
  const content = "word ".repeat(200_000);
  const ask = (index: number) =>
    system.post("/v1/chat/completions", {
      model: "mock",
      stream: true,
      max_tokens: 50,
      messages: [{ role: "user", content: index % 4 === 0 ? content : "hi" }],
    });
  const texts = await Promise.all(
    Array.from({ length: 24 }, async (_, index) => await (await ask(index)).text()),
  );
  for (const text of texts) assertEquals(text.split("\n\n").length, 50 + 3 + 1);
  await system.quiet();
});

Deno.test("large answers come whole: bodies under and over what is gathered, events over the eager budget", async () => {
  const bodyOf = (bytes: number) => JSON.stringify({ choices: [], text: "x".repeat(bytes) });
  const whole = new Map([["small", bodyOf(1_000)], ["gathered", bodyOf(900_000)], [
    "spilled",
    bodyOf(3_000_000),
  ]]);
  const event = `data: {"choices":[{"index":0,"delta":{"content":"${"e".repeat(700_000)}"}}]}\n\n`;
  const end = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
  await using server = new ScriptedServer(async (connection) => {
    while (await connection.readRequest()) {
      const name = JSON.parse(connection.body).messages[0].content;
      const body = whole.get(name);
      if (body !== undefined) {
        await connection.answer("200 OK", "application/json", body);
        continue;
      }
      await connection.start();
      for (let i = 0; i < 5; i++) await connection.chunk(event);
      await connection.chunk(end);
      await connection.finish();
    }
  });
  await using system = await LiveSystem.start({ maxGatherBytes: 1_000_000 });
  await system.addOpenAi(server.url);
  const ask = async (content: string, stream: boolean) => {
    const messages = [{ role: "user", content }];
    const response = await system.post("/v1/chat/completions", { model: "m", stream, messages });
    assertEquals(response.status, 200);
    return await response.text();
  };
  for (const [name, body] of whole) {
    const text = await ask(name, false);
    assert(text === body, `${name}: ${text.length} of ${body.length} bytes`);
  }
  const stream = await ask("stream", true);
  assert(stream === event.repeat(5) + end, `${stream.length} bytes`);
  await system.quiet();
  assertEquals(system.outcomes(), { ok: 4 });
});

Deno.test("one connection carries streams, whole answers and refusals one after the other", async () => {
  await using system = await LiveSystem.start();
  await system.addMock();
  const client = await RawClient.connect(system.port);
  const ask = (fields: Record<string, unknown>) => {
    const body = JSON.stringify({ model: "mock", max_tokens: 5, messages: [], ...fields });
    const length = encoder.encode(body).length;
    return `POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-length: ${length}\r\n\r\n${body}`;
  };
  const messages = [{ role: "user", content: "hi" }];
  const kinds = [
    [{ stream: true, messages }, 200],
    [{ messages }, 200],
    [{ stream: true, messages, model: "none" }, 404],
    [{ stream: true, messages, max_tokens: 0 }, 400],
  ] as const;
  for (let i = 0; i < 40; i++) {
    const [fields, status] = kinds[i % kinds.length]!;
    client.text = "";
    client.send(ask(fields));
    const answer = parseRaw(await client.until((text) => parseRaw(text) !== null))!;
    assertEquals([answer.status, answer.rest], [status, ""]);
    if (i % 4 === 0) assert(answer.body.endsWith("data: [DONE]\n\n"));
  }
  // And pipelined: answers come in the order of the requests.
  client.text = "";
  client.send(ask(kinds[0][0]) + ask(kinds[1][0]) + ask(kinds[2][0]));
  let text = await client.until((all) => all.includes("model_not_found"));
  for (const status of [200, 200, 404]) {
    const answer = parseRaw(text)!;
    assertEquals(answer.status, status);
    text = answer.rest;
  }
  await client.close();
  await system.quiet();
});
