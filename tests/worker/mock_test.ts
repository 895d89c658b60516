import { assert, assertEquals } from "@std/assert";
import { MockEngine, type MockOptions } from "../../src/worker/engines/mock.ts";
import { chatRequest, RecordingOutput } from "../support/recording_output.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

function setUp(options: Partial<MockOptions> = {}) {
  const clock = new VirtualClock();
  const engine = new MockEngine({
    clock,
    ttftMs: 100,
    itlMs: 20,
    unixSeconds: () => 1_700_000_000,
    ...options,
  });
  return { clock, engine };
}

function textOf(output: RecordingOutput): string {
  return output.events().filter((event) => event !== "[DONE]").map((event) => {
    const choice = JSON.parse(event).choices[0];
    return choice?.delta?.content ?? choice?.text ?? "";
  }).join("");
}

Deno.test("MockEngine makes the first token after the prefill time and one per step from then on", () => {
  const { clock, engine } = setUp();
  const output = new RecordingOutput();
  engine.run(chatRequest({ max_tokens: 3 }), output);
  clock.advance(99);
  assertEquals(output.chunks.length, 0);
  assertEquals(output.status, 0);
  clock.advance(1);
  assertEquals(output.chunks.length, 2); // the role and the first token
  clock.advance(19);
  assertEquals(output.chunks.length, 2);
  clock.advance(1);
  assertEquals(output.chunks.length, 3);
  clock.advance(20);
  assertEquals(output.chunks.length, 5); // the last token and the tail
  assertEquals(output.summary?.outcome, "ok");
  assertEquals(engine.running, 0);
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("MockEngine divides its times by the speed-up ratio", () => {
  const { clock, engine } = setUp({ speedupRatio: 10 });
  const output = new RecordingOutput();
  engine.run(chatRequest({ max_tokens: 3 }), output);
  assertEquals(clock.runUntilIdle(), 14);
  assertEquals(output.summary?.outcome, "ok");
});

Deno.test("MockEngine streams OpenAI's chunks: role, tokens, finish reason, usage, done", () => {
  const { clock, engine } = setUp();
  const output = new RecordingOutput();
  engine.run(chatRequest({ max_completion_tokens: 2, stream_options: { include_usage: true } }), output);
  clock.runUntilIdle();
  assertEquals(output.status, 200);
  assertEquals(output.contentType, "text/event-stream");
  const events = output.events();
  assertEquals(events.at(-1), "[DONE]");
  const chunks = events.slice(0, -1).map((event) => JSON.parse(event));
  assertEquals(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  assert(
    chunks.every((chunk) => chunk.object === "chat.completion.chunk" && chunk.created === 1_700_000_000),
  );
  assertEquals(chunks[0].choices, [{
    index: 0,
    delta: { role: "assistant", content: "" },
    finish_reason: null,
  }]);
  assertEquals(chunks[1].choices[0].delta.content.length, 5);
  assertEquals(chunks[3].choices, [{ index: 0, delta: {}, finish_reason: "length" }]);
  assertEquals(chunks[4].choices, []);
  assertEquals(chunks[4].usage, { prompt_tokens: 6, completion_tokens: 2, total_tokens: 8 });
  assertEquals(chunks.length, 5);
  assertEquals(output.summary, {
    outcome: "ok",
    usage: { promptTokens: 6, completionTokens: 2, totalTokens: 8 },
    finishReasons: ["length"],
  });
});

Deno.test("MockEngine sends no usage chunk when none was asked and stops by itself without a limit", () => {
  const { clock, engine } = setUp({ defaultTokens: 4 });
  const output = new RecordingOutput();
  engine.run(chatRequest(), output);
  clock.runUntilIdle();
  assertEquals(output.events().length, 1 + 4 + 1 + 1);
  assert(!output.text().includes("usage"));
  assertEquals(output.summary?.finishReasons, ["stop"]);
});

Deno.test("MockEngine serves plain completions", () => {
  const { clock, engine } = setUp();
  const output = new RecordingOutput();
  const body = { prompt: "Once", max_tokens: 2, messages: undefined };
  engine.run(chatRequest(body, { path: "/v1/completions" }), output);
  clock.runUntilIdle();
  const chunks = output.events().slice(0, -1).map((event) => JSON.parse(event));
  assertEquals(chunks.length, 3);
  assertEquals(chunks[0].object, "text_completion");
  assertEquals(chunks[0].choices[0].text.length, 5);
  assertEquals(chunks[2].choices[0], { index: 0, text: "", logprobs: null, finish_reason: "length" });
});

Deno.test("MockEngine answers without streaming in one body, with the text of the stream, when the last token is made", () => {
  const { clock, engine } = setUp();
  const whole = new RecordingOutput();
  const streamed = new RecordingOutput();
  engine.run(chatRequest({ stream: false, max_tokens: 10 }), whole);
  engine.run(chatRequest({ stream: true, max_tokens: 10 }), streamed);
  clock.advance(279);
  assertEquals(whole.status, 0);
  clock.advance(1);
  const body = JSON.parse(whole.text());
  assertEquals(whole.contentType, "application/json");
  assertEquals(body.object, "chat.completion");
  assertEquals(body.choices[0].message.content, textOf(streamed));
  assertEquals(body.choices[0].message.content.length, 50);
  assertEquals(body.choices[0].finish_reason, "length");
  assertEquals(body.usage, { prompt_tokens: 6, completion_tokens: 10, total_tokens: 16 });
});

Deno.test("MockEngine makes the same text for the same seed and request and another one otherwise", () => {
  function run(seed: number, content: string, body: Record<string, unknown> = {}): string {
    const { clock, engine } = setUp({ seed });
    const output = new RecordingOutput();
    engine.run(chatRequest({ messages: [{ role: "user", content }], max_tokens: 20, ...body }), output);
    clock.runUntilIdle();
    return textOf(output);
  }
  const text = run(1, "Hi");
  assertEquals(run(1, "Hi"), text);
  assertEquals(run(1, "Hi", { temperature: 0.5 }), text);
  assert(run(2, "Hi") !== text);
  assert(run(1, "Ho") !== text);
  assert(run(1, "Hi", { seed: 7 }) !== text);
  assert(new Set(text.trim().split(" ")).size > 10);
});

Deno.test("MockEngine emits a decode step of all requests back to back and calls onStep once behind it", () => {
  const log: string[] = [];
  const { clock, engine } = setUp({ onStep: () => log.push("step") });
  for (let i = 0; i < 3; i++) {
    const output = new RecordingOutput();
    output.onData = () => log.push(`${i}@${clock.now()}`);
    engine.run(chatRequest({ max_tokens: 2 }), output);
  }
  clock.advance(100);
  assertEquals(log, ["0@100", "0@100", "1@100", "1@100", "2@100", "2@100", "step"]);
  log.length = 0;
  clock.advance(20);
  assertEquals(log, ["0@120", "0@120", "1@120", "1@120", "2@120", "2@120", "step"]);
});

Deno.test("MockEngine takes a request into the running batch's grid with one timer for all", () => {
  const times: number[] = [];
  const { clock, engine } = setUp();
  engine.run(chatRequest({ max_tokens: 100 }), new RecordingOutput());
  clock.advance(7);
  const late = new RecordingOutput();
  late.onData = () => times.push(clock.now());
  engine.run(chatRequest({ max_tokens: 3 }), late);
  assertEquals(clock.pendingTimers, 1);
  clock.advance(300);
  assertEquals(times, [107, 107, 120, 140, 140]); // role and first token, second, third and tail
  assertEquals(clock.pendingTimers, 1);
});

Deno.test("MockEngine allows for what timers are late by, and keeps its grid when a step comes late", () => {
  let now = 0;
  let fire: (() => void) | null = null;
  const waits: number[] = [];
  const clock = {
    now: () => now,
    setTimer: (callback: () => void, ms: number) => {
      fire = callback;
      waits.push(ms);
      return 1;
    },
    clearTimer: () => {},
    defer: () => {},
  };
  const engine = new MockEngine({ clock, ttftMs: 100, itlMs: 20 });
  const output = new RecordingOutput();
  engine.run(chatRequest({ max_tokens: 50 }), output);
  const wakeAt = (at: number) => {
    now = at;
    fire!();
    return output.chunks.length;
  };
  assertEquals(waits.at(-1), 99);
  assertEquals(wakeAt(99.4), 0); // the rest would be a timer's own lateness: not yet
  assertEquals(waits.at(-1), 1);
  assertEquals(wakeAt(100), 2);
  assertEquals(wakeAt(119.6), 3); // near enough
  assertEquals(waits.at(-1), 19); // the next one is at 140 all the same
  assertEquals(wakeAt(147), 4); // 7 late
  assertEquals(waits.at(-1), 12); // 160
  assertEquals(wakeAt(225), 5); // over three steps late: one step
  assertEquals(waits.at(-1), 14); // and on at 240
});

Deno.test("MockEngine holds a stream back until its output is writable and loses nothing", () => {
  const { clock, engine } = setUp();
  const free = new RecordingOutput();
  const slow = new RecordingOutput();
  engine.run(chatRequest({ max_tokens: 10 }), free);
  engine.run(chatRequest({ max_tokens: 10 }), slow);
  clock.advance(120);
  slow.writable = false;
  clock.advance(20);
  const held = slow.chunks.length;
  clock.advance(100);
  assertEquals(slow.chunks.length, held);
  assertEquals(free.chunks.length, held + 5);
  slow.release();
  assertEquals(slow.chunks.length, held); // the next step goes on with it
  clock.runUntilIdle();
  assertEquals(textOf(slow), textOf(free));
  assertEquals(slow.summary?.outcome, "ok");
});

Deno.test("MockEngine writes one item per step and in order to an output that is never writable for long", () => {
  const { clock, engine } = setUp();
  const free = new RecordingOutput();
  const slow = new RecordingOutput();
  engine.run(chatRequest({ max_tokens: 5 }), free);
  engine.run(chatRequest({ max_tokens: 5 }), slow);
  slow.writable = false;
  for (let i = 0; i < 30; i++) {
    clock.advance(20);
    slow.onWritable?.();
  }
  assertEquals(slow.text(), free.text());
  assertEquals(engine.running, 0);
});

Deno.test("MockEngine stops at an abort, before and after the first token, and from inside data", () => {
  const { clock, engine } = setUp();
  const early = new RecordingOutput();
  const late = new RecordingOutput();
  const inside = new RecordingOutput();
  for (const output of [early, late, inside]) engine.run(chatRequest({ max_tokens: 10 }), output);
  inside.onData = () => {
    if (inside.chunks.length === 3) inside.abort();
  };
  assertEquals(engine.running, 3);
  early.abort();
  assertEquals(engine.running, 2);
  clock.advance(130);
  assertEquals(engine.running, 1);
  const before = late.chunks.length;
  late.abort();
  assertEquals(engine.running, 0);
  clock.runUntilIdle();
  assertEquals([early.chunks.length, late.chunks.length, inside.chunks.length], [0, before, 3]);
  assertEquals([early.summary, late.summary, inside.summary], [null, null, null]);
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("MockEngine pads events to the size asked", () => {
  const { clock, engine } = setUp({ eventBytes: 400 });
  const output = new RecordingOutput();
  engine.run(chatRequest({ max_tokens: 3 }, { model: "#####" }), output);
  clock.runUntilIdle();
  assertEquals(output.chunks.slice(1, 4).map((chunk) => chunk.length), [400, 400, 400]);
  assert(textOf(output).trim().length === 14);
  assertEquals(JSON.parse(output.events()[1]!).model, "#####");
});

Deno.test("MockEngine makes events of about 170 bytes by default", () => {
  const { clock, engine } = setUp();
  const output = new RecordingOutput();
  engine.run(chatRequest({ max_tokens: 1 }, { id: "f0e1d2c3-0000-4000-8000-123456789abc" }), output);
  clock.runUntilIdle();
  const size = output.chunks[1]!.length;
  assert(size > 150 && size < 190, `an event has ${size} bytes`);
});

Deno.test("MockEngine refuses what it cannot serve with 400 and OpenAI's nested error", async (t) => {
  const chat: [string, Record<string, unknown>, string | null][] = [
    ["no messages", { messages: undefined }, "messages"],
    ["empty messages", { messages: [] }, "messages"],
    ["messages of the wrong type", { messages: "Hi" }, "messages"],
    ["a message that is no object", { messages: [null] }, "messages"],
    ["a message without a role", { messages: [{ content: "Hi" }] }, "messages"],
    ["content of the wrong type", { messages: [{ role: "user", content: 5 }] }, "messages"],
    ["max_tokens 0", { max_tokens: 0 }, "max_tokens"],
    ["max_tokens negative", { max_tokens: -1 }, "max_tokens"],
    ["max_tokens fractional", { max_tokens: 1.5 }, "max_tokens"],
    ["max_tokens text", { max_tokens: "5" }, "max_tokens"],
    ["max_tokens over the limit", { max_tokens: 1_000_001 }, "max_tokens"],
    ["max_completion_tokens wrong", { max_completion_tokens: 0, max_tokens: 5 }, "max_completion_tokens"],
    ["min_tokens over max_tokens", { max_tokens: 5, min_tokens: 6 }, "min_tokens"],
    ["n of 2", { n: 2 }, "n"],
    ["stream of the wrong type", { stream: "yes" }, "stream"],
    ["stream_options without stream", { stream: false, stream_options: {} }, "stream_options"],
    ["include_usage of the wrong type", { stream_options: { include_usage: 1 } }, "stream_options"],
    ["seed of the wrong type", { seed: "a" }, "seed"],
  ];
  for (const [name, body, param] of chat) {
    await t.step(name, () => {
      const { clock, engine } = setUp();
      const output = new RecordingOutput();
      engine.run(chatRequest(body), output);
      assertEquals(output.status, 400);
      assertEquals(output.contentType, "application/json");
      const { error } = JSON.parse(output.text());
      assertEquals(error.type, "invalid_request_error");
      assertEquals(error.param, param);
      assertEquals(typeof error.message, "string");
      assertEquals(output.summary?.outcome, "ok");
      assertEquals([engine.running, clock.pendingTimers], [0, 0]);
    });
  }
  const raw: [string, Uint8Array][] = [
    ["no JSON", new TextEncoder().encode("{")],
    ["a list", new TextEncoder().encode("[]")],
    ["bad UTF-8", new Uint8Array([0x22, 0xc3, 0x28, 0x22])],
    ["nothing", new Uint8Array()],
  ];
  for (const [name, body] of raw) {
    await t.step(name, () => {
      const output = new RecordingOutput();
      setUp().engine.run(chatRequest({}, { body }), output);
      assertEquals(output.status, 400);
    });
  }
});

Deno.test("MockEngine tolerates the benchmark fields and content parts", () => {
  const { clock, engine } = setUp();
  const output = new RecordingOutput();
  engine.run(
    chatRequest({
      messages: [{ role: "user", content: [{ type: "text", text: "Hi" }, { type: "image_url" }] }],
      max_tokens: 5,
      min_tokens: 5,
      ignore_eos: true,
      stop: ["x"],
      n: 1,
      stream_options: null,
      max_completion_tokens: null,
    }),
    output,
  );
  clock.runUntilIdle();
  assertEquals(output.summary?.usage?.completionTokens, 5);
});

Deno.test("MockEngine ends what runs when it is closed and refuses what comes after", async () => {
  const { clock, engine } = setUp();
  const started = new RecordingOutput();
  const waiting = new RecordingOutput();
  const after = new RecordingOutput();
  engine.run(chatRequest(), started);
  clock.advance(100);
  engine.run(chatRequest(), waiting);
  await engine.close();
  engine.run(chatRequest(), after);
  assertEquals(started.summary?.outcome, "truncated");
  assertEquals([waiting.status, after.status], [503, 503]);
  assertEquals([engine.running, clock.pendingTimers], [0, 0]);
});

Deno.test("MockEngine that is closed by the first token it emits ends that stream too", () => {
  const { clock, engine } = setUp();
  const output = new RecordingOutput();
  output.onData = () => void engine.close();
  engine.run(chatRequest({ max_tokens: 50 }), output);
  clock.advance(10_000);
  assertEquals(output.summary?.outcome, "truncated");
  assertEquals([engine.running, clock.pendingTimers], [0, 0]);
});
