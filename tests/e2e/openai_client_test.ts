/** What a program that uses the real `openai` client sees of the whole path, in front of mock workers. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import OpenAI from "openai";
import { LiveSystem } from "../support/live_system.ts";
import { until } from "../support/until.ts";

const HI = { model: "mock", messages: [{ role: "user" as const, content: "Hi \u{1F600}, \u4f60\u597d" }] };

async function withMock(test: (system: LiveSystem, client: OpenAI) => Promise<void>): Promise<void> {
  await using system = await LiveSystem.start();
  await system.addMock();
  await test(system, system.client());
  await system.quiet();
}

Deno.test("the openai client streams a chat, and gets the same text without streaming", async () => {
  await withMock(async (_system, client) => {
    let text = "";
    const reasons: (string | null)[] = [];
    const roles: (string | undefined)[] = [];
    const stream = await client.chat.completions.create({ ...HI, stream: true, max_tokens: 40 });
    for await (const chunk of stream) {
      const { delta, finish_reason: reason } = chunk.choices[0]!;
      text += delta.content ?? "";
      if (delta.role !== undefined) roles.push(delta.role);
      if (reason !== null) reasons.push(reason);
      assertEquals(chunk.model, "mock");
    }
    const whole = await client.chat.completions.create({ ...HI, max_tokens: 40 });
    assertEquals([reasons, roles], [["length"], ["assistant"]]);
    assert(text.length > 40);
    const { role, content } = whole.choices[0]!.message;
    assertEquals([role, content], ["assistant", text]);
    assertEquals(whole.usage!.completion_tokens, 40);
  });
});

Deno.test("the openai client gets its usage chunk, last and with empty choices", async () => {
  await withMock(async (system, client) => {
    const stream = await client.chat.completions.create({
      ...HI,
      stream: true,
      max_completion_tokens: 7,
      stream_options: { include_usage: true },
    });
    const chunks: OpenAI.ChatCompletionChunk[] = [];
    for await (const chunk of stream) chunks.push(chunk);
    const last = chunks.pop()!;
    assertEquals(last.choices, []);
    assertEquals(last.usage!.completion_tokens, 7);
    assertEquals(last.usage!.total_tokens, last.usage!.prompt_tokens + 7);
    assert(chunks.every(({ usage }) => usage === undefined || usage === null));
    await until(() => system.frontend.stats.completionTokens === 7, "the frontend to have counted them");
  });
});

Deno.test("the openai client completes a prompt, streamed and whole", async () => {
  await withMock(async (_system, client) => {
    const ask = { model: "mock", prompt: "Once upon", max_tokens: 12 };
    let text = "";
    for await (const chunk of await client.completions.create({ ...ask, stream: true })) {
      text += chunk.choices[0]?.text ?? "";
    }
    const whole = await client.completions.create(ask);
    assertEquals(whole.choices[0]!.text, text);
    assertEquals(whole.object, "text_completion");
  });
});

Deno.test("the openai client lists models and finds one by its name", async () => {
  await withMock(async (system, client) => {
    await system.addMock({}, ["org/other", "mock"]);
    assertEquals((await client.models.list()).data.map(({ id }) => id), ["mock", "org/other"]);
    assertEquals((await client.models.retrieve("org/other")).owned_by, "test");
    await assertRejects(() => client.models.retrieve("none"), OpenAI.NotFoundError);
  });
});

Deno.test("the openai client aborts a stream, and the engine stops", async () => {
  await withMock(async (system, client) => {
    const stream = await client.chat.completions.create({ ...HI, stream: true, max_tokens: 100_000 });
    let chunks = 0;
    for await (const _ of stream) if (++chunks === 5) break;
    const begun = performance.now();
    await system.quiet();
    assert(performance.now() - begun < 1_000);
    assertEquals(system.outcomes(), { cancelled: 1 });
    assertEquals(system.workers[0]!.worker.status.stats.outcomes.cancelled, 1);
  });
});

Deno.test("the openai client aborts a request that is not streamed", async () => {
  await withMock(async (system, client) => {
    const abort = new AbortController();
    const answer = client.chat.completions.create({ ...HI, max_tokens: 100_000 }, { signal: abort.signal });
    await until(() => system.workers[0]!.engine.running === 1, "the engine to run");
    abort.abort();
    await assertRejects(() => answer, OpenAI.APIUserAbortError);
    await system.quiet();
    assertEquals(system.outcomes(), { cancelled: 1 });
  });
});

Deno.test("the openai client throws the class that belongs to each error", async (t) => {
  await using system = await LiveSystem.start({ apiKeys: ["right"], maxBodyBytes: 65_536 });
  await system.addMock();
  const client = new OpenAI({ baseURL: `${system.base}/v1`, apiKey: "right", maxRetries: 0 });
  const wrong = new OpenAI({ baseURL: `${system.base}/v1`, apiKey: "wrong", maxRetries: 0 });
  const cases: [string, () => Promise<unknown>, (error: unknown) => boolean, number, string][] = [
    [
      "unknown model",
      () => client.chat.completions.create({ ...HI, model: "none", stream: true }),
      (error) => error instanceof OpenAI.NotFoundError,
      404,
      "model_not_found",
    ],
    [
      "wrong key",
      () => wrong.chat.completions.create(HI),
      (error) => error instanceof OpenAI.AuthenticationError,
      401,
      "invalid_api_key",
    ],
    [
      "a number the engine refuses",
      () => client.chat.completions.create({ ...HI, max_tokens: -1, stream: true }),
      (error) => error instanceof OpenAI.BadRequestError,
      400,
      "",
    ],
    [
      "a body without messages",
      () => client.chat.completions.create({ model: "mock" } as never),
      (error) => error instanceof OpenAI.BadRequestError,
      400,
      "",
    ],
    [
      "a body over the limit",
      () => client.completions.create({ model: "mock", prompt: "x".repeat(70_000) }),
      (error) => error instanceof OpenAI.APIError,
      413,
      "request_too_large",
    ],
  ];
  for (const [name, call, isRight, status, code] of cases) {
    await t.step(name, async () => {
      const error = await assertRejects(call, OpenAI.APIError);
      assert(isRight(error), error.constructor.name);
      assertEquals(error.status, status);
      if (code !== "") assertEquals(error.code, code);
      assert(error.message.length > 10 && !error.message.includes("at "), error.message);
      assert(error.requestID !== null && error.requestID !== undefined);
    });
  }
  await system.quiet();
});

Deno.test("the openai client learns that nobody serves a model any more, and that all are busy", async () => {
  await using system = await LiveSystem.start({ maxStreams: 1 });
  const { worker } = await system.addMock();
  const client = system.client();
  const stream = await client.chat.completions.create({ ...HI, stream: true, max_tokens: 100_000 });
  const chunks = stream[Symbol.asyncIterator]();
  await chunks.next();
  const busy = await assertRejects(() => client.chat.completions.create(HI), OpenAI.RateLimitError);
  assertEquals(busy.headers?.get("retry-after"), "1");
  await chunks.return!();
  await system.quiet();
  await worker.drain(1_000);
  const gone = await assertRejects(() => client.chat.completions.create(HI), OpenAI.APIError);
  // Clients try again behind 503, not behind 404: the worker may be back soon.
  assertEquals([gone.status, gone.headers?.get("retry-after")], [503, "1"]);
  assertEquals((await client.models.list()).data, []);
});
