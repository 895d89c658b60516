import { assert, assertEquals, assertRejects } from "@std/assert";
import OpenAI from "openai";
import { type FrontendHarness, withFrontend } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

function clientOf(harness: FrontendHarness, apiKey = "k"): OpenAI {
  return new OpenAI({ baseURL: `${harness.base}/v1`, apiKey, maxRetries: 0 });
}

const messages = [{ role: "user" as const, content: "hi" }];
const chunk = (delta: Record<string, unknown>, finish: string | null = null) => {
  const choices = [{ index: 0, delta, finish_reason: finish }];
  const value = { id: "c1", object: "chat.completion.chunk", created: 1, model: "m", choices };
  return `data: ${JSON.stringify(value)}\n\n`;
};

Deno.test("The openai client reads a stream to its end, usage chunk included", () =>
  withFrontend({}, async (harness) => {
    const pending = clientOf(harness).chat.completions.create({
      model: "m",
      messages,
      stream: true,
      stream_options: { include_usage: true },
    });
    const stream = await harness.nextStream();
    stream.head().data(chunk({ role: "assistant", content: "" })).flush();
    let said = "";
    let total = 0;
    const events = await pending;
    for (const word of ["Hel", "lo", " \u{1F600}"]) stream.data(chunk({ content: word })).flush();
    stream.data(chunk({}, "stop"));
    stream.data(
      `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":1,"total_tokens":8}}\n\n`,
    );
    stream.data("data: [DONE]\n\n").summary("ok", ["stop"], {
      promptTokens: 7,
      completionTokens: 1,
      totalTokens: 8,
    }).end().flush();
    for await (const event of events) {
      said += event.choices[0]?.delta.content ?? "";
      total += event.usage?.total_tokens ?? 0;
    }
    assertEquals([said, total], ["Hello \u{1F600}", 8]);
    assertEquals([harness.node.stats.promptTokens, harness.node.stats.completionTokens], [7, 1]);
    assertEquals(harness.outcomes(), { ok: 1 });
  }));

Deno.test("The openai client reads a whole completion", () =>
  withFrontend({}, async (harness) => {
    const pending = clientOf(harness).chat.completions.create({ model: "m", messages });
    const stream = await harness.nextStream();
    const message = { role: "assistant", content: "Hello", refusal: null };
    const choices = [{ index: 0, message, finish_reason: "stop", logprobs: null }];
    const body = JSON.stringify({ id: "c1", object: "chat.completion", created: 1, model: "m", choices });
    stream.head(200, "application/json").data(body).finish().flush();
    assertEquals((await pending).choices[0]?.message.content, "Hello");
  }));

Deno.test("The openai client raises the class for each status", () =>
  withFrontend({ apiKeys: ["right"], maxBodyBytes: 2_000 }, async (harness) => {
    const create = (key: string, model: string, content = "hi") =>
      clientOf(harness, key).chat.completions.create({ model, messages: [{ role: "user", content }] });
    await assertRejects(() => create("wrong", "m"), OpenAI.AuthenticationError, "401");
    await assertRejects(
      () => create("right", "other"),
      OpenAI.NotFoundError,
      'The model "other" does not exist.',
    );
    await assertRejects(() => create("right", ""), OpenAI.BadRequestError, "1 to 256 characters");
    await assertRejects(() => create("right", "m", "x".repeat(3_000)), OpenAI.APIError, "413");
    harness.node.beginDrain();
    await assertRejects(() => create("right", "m"), OpenAI.InternalServerError, "503");
  }));

Deno.test("The openai client raises a rate limit error when the frontend is full", () =>
  withFrontend({ maxStreams: 1 }, async (harness) => {
    const first = harness.post();
    const stream = await harness.nextStream();
    await assertRejects(
      () => clientOf(harness).chat.completions.create({ model: "m", messages }),
      OpenAI.RateLimitError,
      "429",
    );
    stream.head().data(chunk({ content: "x" })).finish().flush();
    await (await first).body?.cancel();
  }));

Deno.test("The openai client raises an error when a worker is lost in mid-stream", () =>
  withFrontend({}, async (harness) => {
    const pending = clientOf(harness).chat.completions.create({ model: "m", messages, stream: true });
    const stream = await harness.nextStream();
    stream.head().data(chunk({ content: "Hel" })).flush();
    const events = await pending;
    stream.drop().flush();
    let said = "";
    const error = await assertRejects(async () => {
      for await (const event of events) said += event.choices[0]?.delta.content ?? "";
    }, OpenAI.APIError);
    assertEquals(said, "Hel");
    assert(error.message.includes("The worker was lost before the response was complete."));
  }));

Deno.test("The openai client's abort reaches the worker at once", () =>
  withFrontend({}, async (harness) => {
    const pending = clientOf(harness).chat.completions.create({ model: "m", messages, stream: true });
    const stream = await harness.nextStream();
    stream.head().data(chunk({ content: "Hel" })).flush();
    const events = await pending;
    for await (const _event of events) break;
    await until(() => stream.cancelled !== null, "the worker is told");
    await until(() => harness.node.openRequests === 0, "no open request");
    assertEquals(harness.outcomes(), { cancelled: 1 });
  }));

Deno.test("The openai client lists models", () =>
  withFrontend({}, async (harness) => {
    const names: string[] = [];
    for await (const model of clientOf(harness).models.list()) names.push(model.id);
    assertEquals(names, ["m"]);
    assertEquals((await clientOf(harness).models.retrieve("m")).owned_by, "test");
  }));
