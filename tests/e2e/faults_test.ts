/** Faults of the field over the whole path, where every part does its share: see the tests of the same names in `regress`. */
import { assert, assertEquals } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import type { Engine, EngineOutput } from "../../src/worker/engines/engine.ts";
import { RawClient } from "../support/frontend_harness.ts";
import { LiveSystem } from "../support/live_system.ts";
import { type ScriptedConnection, ScriptedServer } from "../support/scripted_server.ts";
import { until } from "../support/until.ts";

const CONTENT = 'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n';
const FINISH = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const ERROR = 'data: {"error":{"message":"out of memory","code":500},"choices":[]}\n\n';
const DONE = "data: [DONE]\n\n";

const chat = (fields: Record<string, unknown> = {}) => ({
  model: "m",
  stream: true,
  messages: [{ role: "user", content: "hi" }],
  ...fields,
});

function errorEvent(code: string): RegExp {
  return new RegExp(
    `data: {"error":{"message":"[^"]+","type":"[^"]+","param":null,"code":"${code}"}}\n\n${
      DONE.replaceAll("[", "\\[")
    }$`,
  );
}

/** BerriAI/litellm#42085, open-webui/open-webui#29628: what the server does, what the client gets, what is counted. */
const CUTS: [string, (connection: ScriptedConnection) => Promise<void>, string, RegExp, string][] = [
  [
    "a clean end without a finish reason",
    (c) => c.finish(),
    CONTENT + CONTENT,
    errorEvent("truncated"),
    "truncated",
  ],
  [
    "a connection that closes",
    (c) => Promise.resolve(c.close()),
    CONTENT + CONTENT,
    errorEvent("truncated"),
    "truncated",
  ],
  [
    "a close inside an event",
    async (c) => {
      await c.chunk(CONTENT.slice(0, 30));
      c.close();
    },
    `${CONTENT + CONTENT + CONTENT.slice(0, 30)}\n\n`,
    errorEvent("truncated"),
    "truncated",
  ],
  [
    "an error in the stream",
    async (c) => {
      await c.chunk(ERROR);
      await c.finish();
    },
    CONTENT + CONTENT + ERROR,
    errorEvent("upstream_error"),
    "upstream_error",
  ],
  [
    "a finish reason but no [DONE]",
    async (c) => {
      await c.chunk(FINISH);
      await c.finish();
    },
    CONTENT + CONTENT + FINISH,
    errorEvent("truncated"),
    "truncated",
  ],
];

for (const [name, cut, relayed, tail, outcome] of CUTS) {
  Deno.test(`the path shows that a stream was cut: ${name}`, async () => {
    await using server = new ScriptedServer(async (connection) => {
      await connection.readRequest();
      await connection.start();
      await connection.chunk(CONTENT + CONTENT);
      // The client has these two before anything else happens.
      await new Promise((resolve) => setTimeout(resolve, 5));
      await cut(connection);
    });
    await using system = await LiveSystem.start();
    await system.addOpenAi(server.url);
    const response = await system.post("/v1/chat/completions", chat());
    const text = await response.text();
    assertEquals(text.slice(0, relayed.length), relayed);
    assert(tail.test(text.slice(relayed.length)), text.slice(relayed.length));
    assertEquals(text.replace(relayed, "").match(/"error"/g)?.length, 1);
    await system.quiet();
    assertEquals(system.outcomes(), { [outcome]: 1 });
  });
}

Deno.test("the path ends a client's stream on [DONE] though the server keeps its connection open", async () => {
  await using server = new ScriptedServer(async (connection) => {
    await connection.readRequest();
    await connection.start();
    await connection.chunk(CONTENT + FINISH + DONE);
    await connection.gone();
  });
  await using system = await LiveSystem.start();
  await system.addOpenAi(server.url);
  const response = await system.post("/v1/chat/completions", chat());
  const reader = response.body!.getReader();
  let text = "";
  const decoder = new TextDecoder();
  while (!text.endsWith(DONE)) text += decoder.decode((await reader.read()).value);
  const told = performance.now();
  assertEquals((await reader.read()).done, true);
  assert(performance.now() - told < 500, "the body ends soon behind [DONE]");
  assertEquals(text, CONTENT + FINISH + DONE);
  await system.quiet();
  assertEquals(system.outcomes(), { ok: 1 });
});

Deno.test("the path relays a line at the engine's limit and ends a stream whose line never ends (open-webui#10302)", async () => {
  const limit = 262_144;
  const line = `data: "${"x".repeat(limit - 8)}"\n\n`;
  await using server = new ScriptedServer(async (connection) => {
    while (await connection.readRequest()) {
      await connection.start();
      if (connection.body.includes("endless")) {
        const piece = new Uint8Array(65_536).fill(120);
        for (let i = 0; i < 1_024; i++) await connection.chunk(piece);
        return;
      }
      await connection.chunk(line + FINISH + DONE);
      await connection.finish();
    }
  });
  await using system = await LiveSystem.start();
  await system.addOpenAi(server.url, { maxEventBytes: limit });
  assertEquals(await (await system.post("/v1/chat/completions", chat())).text(), line + FINISH + DONE);
  const endless = await system.post("/v1/chat/completions", chat({ user: "endless" }));
  const text = await endless.text();
  assert(text.length < 2 * limit, `${text.length} bytes`);
  assert(errorEvent("truncated").test(text), text.slice(-200));
  await system.quiet();
  assertEquals(system.outcomes(), { ok: 1, truncated: 1 });
});

/** Large enough for the sockets to be full soon. */
const EVENT_BYTES = 8_000;

Deno.test("clients that stop to read stop their engine, and nobody else (denoland/deno#30298)", async () => {
  await using system = await LiveSystem.start();
  const worker = await system.addMock({ itlMs: 1, eventBytes: EVENT_BYTES }, ["m"]);
  const body = JSON.stringify(chat({ max_tokens: 100_000 }));
  const request =
    `POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const clients = await Promise.all(Array.from({ length: 100 }, () => RawClient.connect(system.port)));
  for (const client of clients) client.send(request);
  await Promise.all(clients.map((client) => client.until((text) => text.includes("data: "))));
  for (const { socket } of clients) socket.pause();
  const { stats } = system.frontend;
  // Sockets fill up, then windows; from then on nothing is taken from the engine any more.
  let last = -1;
  await until(
    () => {
      const isStill = stats.recordsIn === last && stats.stalls >= 100;
      last = stats.recordsIn;
      return isStill;
    },
    "every stream to stand still",
    30_000,
  );
  const taken = stats.recordsIn;
  const held = system.node.plane.mux.bytesHeld;
  assert(held <= 100 * 33 * EVENT_BYTES, `${held} bytes are held for 100 windows of 32 events`);
  const [{ plane }] = [worker.node];
  assert(plane.stats.withheldRecords <= 2 * 100, `${plane.stats.withheldRecords} records wait at the worker`);
  let longest = Infinity;
  let streams = 0;
  while (longest >= 250 && streams < 3) { // a busy machine may stop us for longer than we take
    const times: number[] = [];
    const beside = await system.post("/v1/chat/completions", chat({ max_tokens: 200 }));
    for await (const _ of beside.body!) times.push(performance.now());
    longest = Math.max(...times.slice(1).map((time, index) => time - times[index]!));
    streams++;
  }
  assert(longest < 250, `a gap of ${longest} ms`);
  assert(stats.recordsIn - taken <= 210 * streams, "those that stand still were fed on");
  for (const client of clients) client.socket.destroy();
  await system.quiet();
  assertEquals(system.outcomes(), { cancelled: 100, ok: streams });
});

Deno.test("tokens of one frame each come at the pace of their making (ai-dynamo/dynamo#14643)", async () => {
  await using system = await LiveSystem.start();
  await system.addMock({ itlMs: 10 }, ["m"]);
  const times: number[] = [];
  const response = await system.post("/v1/chat/completions", chat({ max_tokens: 60 }));
  for await (const _ of response.body!) times.push(performance.now());
  const gaps = times.slice(1).map((time, index) => time - times[index]!).sort((a, b) => a - b);
  const median = gaps[gaps.length >> 1]!;
  // A write that waits for a delayed acknowledgement comes 40 ms late, together with others.
  assert(median > 2 && median < 30, `a median gap of ${median} ms`);
  assert(gaps.length > 45, `${gaps.length + 1} pieces for 62 events`);
});

/** An engine that breaks its rules. */
function brokenEngine(run: (output: EngineOutput) => void): () => Engine {
  return () => ({
    name: "broken",
    running: 0,
    run: (_request, output) => run(output),
    close: () => Promise.resolve(),
  });
}

Deno.test("an engine that throws shows a client fixed text and counts as internal_error (honojs/hono#2068)", async () => {
  await using system = await LiveSystem.start();
  const secret = () => new TokenplaneError("internal", "secret of /srv/engine.ts:7");
  await system.add(
    brokenEngine((output) => {
      output.head(200, "text/event-stream");
      output.data(new TextEncoder().encode(CONTENT));
      throw secret();
    }),
    ["late"],
  );
  await system.add(
    brokenEngine(() => {
      throw secret();
    }),
    ["early"],
  );
  await system.add(brokenEngine((output) => output.data(new TextEncoder().encode(CONTENT))), ["headless"]);
  const late = await (await system.post("/v1/chat/completions", chat({ model: "late" }))).text();
  assert(late.startsWith(CONTENT) && errorEvent("internal_error").test(late), late);
  const early = await system.post("/v1/chat/completions", chat({ model: "early" }));
  const headless = await system.post("/v1/chat/completions", chat({ model: "headless" }));
  for (const response of [early, headless]) {
    assertEquals(response.status, 500);
    assert(!(await response.text()).includes("secret"));
  }
  assert(!late.includes("secret"));
  await system.quiet();
  assertEquals(system.outcomes(), { internal_error: 3 });
});

for (const streamSetup of ["ticket", "attach"] as const) {
  Deno.test(`a typed refusal keeps its type, set up by ${streamSetup} (ai-dynamo/dynamo#14750)`, async () => {
    await using system = await LiveSystem.start({ maxAttempts: 1 }, { streamSetup });
    await system.addMock({}, ["m"]);
    for (const stream of [true, false]) {
      const response = await system.post("/v1/chat/completions", chat({ stream, max_tokens: -1 }));
      const { error } = await response.json();
      assertEquals([response.status, error.type, error.param], [400, "invalid_request_error", "max_tokens"]);
    }
    await system.quiet();
    // The worker drains and its frontend does not know yet: told so, it says the right thing.
    const { worker } = system.workers[0]!;
    const drained = worker.drain(1_000);
    const response = await system.post("/v1/chat/completions", chat());
    assertEquals([response.status, (await response.json()).error.code], [503, "unavailable"]);
    await drained;
  });
}
