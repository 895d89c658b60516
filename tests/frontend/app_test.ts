import { assert, assertEquals, assertMatch } from "@std/assert";
import type { FrontendOptions } from "../../src/frontend/options.ts";
import {
  chatBody,
  FrontendHarness,
  parseRaw,
  rawChat,
  RawClient,
  withFrontend,
} from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

interface Refusal {
  readonly name: string;
  readonly options?: Partial<FrontendOptions>;
  readonly path?: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Uint8Array;
  readonly status: number;
  readonly code: string;
  readonly message?: string;
}

const chat = (fields: Record<string, unknown>) => JSON.stringify(chatBody(fields));
const deep = "[".repeat(100) + "]".repeat(100);

const REFUSALS: readonly Refusal[] = [
  {
    name: "an empty body",
    body: "",
    status: 400,
    code: "invalid_request",
    message: "The request has no body. Send a JSON object.",
  },
  { name: "bad JSON", body: '{"model":', status: 400, code: "invalid_request" },
  {
    name: "bad UTF-8",
    body: new Uint8Array([0x22, 0xc3, 0x28, 0x22]),
    status: 400,
    code: "invalid_request",
    message: "The body is not valid UTF-8.",
  },
  {
    name: "a JSON array",
    body: "[]",
    status: 400,
    code: "invalid_request",
    message: '"body" must be a JSON object, not an array.',
  },
  {
    name: "no model",
    body: '{"messages":[]}',
    status: 400,
    code: "invalid_request",
    message: 'The request has no "model".',
  },
  {
    name: "a model that is a number",
    body: chat({ model: 4 }),
    status: 400,
    code: "invalid_request",
    message: '"model" must be a string, not a value of type number.',
  },
  { name: "an empty model", body: chat({ model: "" }), status: 400, code: "invalid_request" },
  { name: "a long model", body: chat({ model: "m".repeat(257) }), status: 400, code: "invalid_request" },
  { name: "no messages", body: chat({ messages: undefined }), status: 400, code: "invalid_request" },
  {
    name: "messages that are text",
    body: chat({ messages: "hi" }),
    status: 400,
    code: "invalid_request",
    message: '"messages" must be an array, not a value of type string.',
  },
  {
    name: "stream that is text",
    body: chat({ stream: "yes" }),
    status: 400,
    code: "invalid_request",
    message: '"stream" must be a boolean, not a value of type string.',
  },
  {
    name: "stream_options that are a list",
    body: chat({ stream_options: [] }),
    status: 400,
    code: "invalid_request",
  },
  {
    name: "include_usage that is a number",
    body: chat({ stream_options: { include_usage: 1 } }),
    status: 400,
    code: "invalid_request",
    message: '"stream_options.include_usage" must be a boolean, not a value of type number.',
  },
  {
    name: "deep nesting",
    body: chat({ tools: 0 }).replace('"tools":0', `"tools":${deep}`),
    status: 400,
    code: "invalid_request",
  },
  {
    name: "an encoded body",
    headers: { "content-encoding": "gzip" },
    body: "x",
    status: 400,
    code: "invalid_request",
  },
  {
    name: "a completion without a prompt",
    path: "/v1/completions",
    body: '{"model":"m"}',
    status: 400,
    code: "invalid_request",
  },
  {
    name: "an unknown model",
    body: chat({ model: "other" }),
    status: 404,
    code: "model_not_found",
    message: 'The model "other" does not exist.',
  },
  {
    name: "a body over the limit",
    options: { maxBodyBytes: 100 },
    body: chat({ user: "x".repeat(200) }),
    status: 413,
    code: "request_too_large",
  },
  {
    name: "no key",
    options: { apiKeys: ["k1", "k2"] },
    body: chat({}),
    status: 401,
    code: "invalid_api_key",
  },
  {
    name: "a wrong key",
    options: { apiKeys: ["k1"] },
    headers: { authorization: "Bearer k11" },
    body: chat({}),
    status: 401,
    code: "invalid_api_key",
  },
  {
    name: "models without a key",
    options: { apiKeys: ["k1"] },
    path: "/v1/models",
    method: "GET",
    status: 401,
    code: "invalid_api_key",
  },
  { name: "an unknown path", path: "/v2/x", method: "GET", status: 404, code: "not_found" },
  { name: "a wrong method", method: "GET", status: 405, code: "method_not_allowed" },
  { name: "a wrong method on health", path: "/health", body: "{}", status: 405, code: "method_not_allowed" },
  {
    name: "an unknown model's card",
    path: "/v1/models/nope",
    method: "GET",
    status: 404,
    code: "model_not_found",
  },
];

Deno.test("App answers 503 with retry-after, whatever the model, while no worker has joined, and lists none", async () => {
  const harness = await new FrontendHarness().start();
  const response = await harness.post({ model: "any" });
  assertEquals([response.status, response.headers.get("retry-after")], [503, "1"]);
  assertEquals((await response.json()).error.code, "unavailable");
  const models = await fetch(`${harness.base}/v1/models`);
  assertEquals((await models.json()).data, []);
  await harness.close();
});

for (const refusal of REFUSALS) {
  Deno.test(`App refuses ${refusal.name} with ${refusal.status} in OpenAI's shape`, () =>
    withFrontend(refusal.options ?? {}, async (harness) => {
      const { method = "POST", headers = {}, body } = refusal;
      const response = await fetch(harness.base + (refusal.path ?? "/v1/chat/completions"), {
        method,
        headers: { "x-request-id": "id-1", ...headers },
        ...(body === undefined ? {} : { body: body as BodyInit }),
      });
      const { error } = await response.json();
      assertEquals(response.status, refusal.status);
      assertEquals(Object.keys(error), ["message", "type", "param", "code"]);
      assertEquals(error.code, refusal.code);
      if (refusal.message !== undefined) assertEquals(error.message, refusal.message);
      assertEquals(response.headers.get("x-request-id"), "id-1");
      assertEquals(response.headers.get("content-type"), "application/json");
      assertEquals(harness.plane.streams.length, 0);
      assertEquals(harness.node.stats.queued, 0);
    }));
}

Deno.test("App lets a right key in", () =>
  withFrontend({ apiKeys: ["k1", "k2"] }, async (harness) => {
    const pending = harness.post({}, { headers: { authorization: "Bearer k2" } });
    (await harness.nextStream()).head().data("data: 1\n\n").finish().flush();
    assertEquals(await (await pending).text(), "data: 1\n\n");
  }));

Deno.test("App echoes a request id that is short visible ASCII and mints one otherwise", () =>
  withFrontend({}, async (harness) => {
    const ask = async (id: string) =>
      (await fetch(`${harness.base}/live`, { headers: { "x-request-id": id } }).then(async (response) => {
        await response.body?.cancel();
        return response.headers.get("x-request-id");
      }))!;
    assertEquals(await ask("abc-1"), "abc-1");
    for (const bad of ["a b", "x".repeat(129)]) assertMatch(await ask(bad), /^[0-9a-f-]{36}$/);
    const pending = harness.post({}, { headers: { "x-request-id": "mine" } });
    (await harness.nextStream()).head().data("data: 1\n\n").finish().flush();
    const response = await pending;
    assertEquals(response.headers.get("x-request-id"), "mine");
    await response.body?.cancel();
    assertEquals(harness.requests[0]!.id, "mine");
  }));

Deno.test("App passes the client's body on byte for byte, and named headers only", () =>
  withFrontend({ passHeaders: ["x-tenant"] }, async (harness) => {
    const body =
      ' {"model" : "m","messages":[{"role":"user","content":"\\u00e9 \u{1F600}"}],\r\n"stream":true}';
    const pending = harness.post({}, { body, headers: { "x-tenant": "t1", "x-other": "o" } });
    (await harness.nextStream()).head().data("data: 1\n\n").finish().flush();
    await (await pending).body?.cancel();
    const request = harness.requests[0]!;
    assertEquals(new TextDecoder().decode(request.body), body);
    assertEquals({ ...request.headers }, { "x-tenant": "t1" });
    assertEquals([request.path, request.model, request.stream], ["/v1/chat/completions", "m", true]);
  }));

Deno.test("App takes chunked bodies, and stops one that grows over the limit", () =>
  withFrontend({ maxBodyBytes: 1_000 }, async (harness) => {
    const client = await RawClient.connect(harness.port);
    const head = "POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n";
    const body = JSON.stringify(chatBody());
    client.send(head);
    for (const byte of body) client.send(`1\r\n${byte}\r\n`);
    client.send("0\r\n\r\n");
    (await harness.nextStream()).head().data("data: 1\n\n").finish().flush();
    await client.until((text) => text.endsWith("\r\n0\r\n\r\n"));
    client.text = "";
    client.send(head);
    for (let i = 0; i < 11; i++) client.send(`64\r\n${" ".repeat(100)}\r\n`);
    const text = await client.until((text) => parseRaw(text) !== null);
    assertEquals(parseRaw(text)!.status, 413);
    await client.close();
    await until(() => harness.node.openRequests === 0, "no open request");
  }));

Deno.test("App shows the models of ready workers, once each and sorted", async () => {
  const harness = await new FrontendHarness().start();
  const get = async (path: string) => {
    const response = await fetch(harness.base + path);
    return [response.status, await response.json()] as const;
  };
  assertEquals(await get("/health"), [503, { status: "not_ready", models: [] }]);
  assertEquals(await get("/v1/models"), [200, { object: "list", data: [] }]);
  harness.join(1, ["zeta", "org/alpha"]);
  harness.join(2, ["zeta"]);
  assertEquals(await get("/health"), [200, { status: "healthy", models: ["org/alpha", "zeta"] }]);
  const card = { id: "org/alpha", object: "model", created: 1_700_000_000, owned_by: "test" };
  const [, list] = await get("/v1/models");
  assertEquals(list.data, [card, { ...card, id: "zeta" }]);
  assertEquals(await get("/v1/models/org/alpha"), [200, card]);
  assertEquals(await get("/v1/models/org%2Falpha"), [200, card]);
  assertEquals((await get("/v1/models/%zz"))[0], 404);
  assertEquals(await get("/live"), [200, { status: "live" }]);
  await harness.close();
});

Deno.test("App refuses requests over the limit of streams with retry-after, and counts each once", () =>
  withFrontend({ maxStreams: 1 }, async (harness) => {
    const first = harness.post();
    const stream = await harness.nextStream();
    const second = await harness.post();
    assertEquals(second.status, 429);
    assertEquals(second.headers.get("retry-after"), "1");
    assertEquals((await second.json()).error.code, "overloaded");
    stream.head().data("data: 1\n\n").finish().flush();
    await (await first).body?.cancel();
    assertEquals(harness.node.stats.refused, { overloaded: 1 });
  }));

Deno.test("Server answers what is no request in OpenAI's shape and closes", () =>
  withFrontend({ maxHeaderBytes: 4_096, headersTimeoutMs: 200, requestTimeoutMs: 400 }, async (harness) => {
    const cases: readonly (readonly [string, number])[] = [
      ["NO HTTP\r\n\r\n", 400],
      [`GET /live HTTP/1.1\r\nhost: t\r\nx: ${"y".repeat(10_000)}\r\n\r\n`, 431],
      ["GET /live HTTP/1.1\r\nhost: t\r\n", 408],
      ["POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-length: 10\r\n\r\n{", 408],
    ];
    for (const [text, status] of cases) {
      const client = await RawClient.connect(harness.port);
      const response = parseRaw(await client.send(text).closed())!;
      assertEquals(response.status, status);
      assertEquals(typeof JSON.parse(response.body).error.message, "string");
    }
    await until(() => harness.node.stats.refused["cancelled"] === 1, "the half request is counted");
  }));

Deno.test("Server writes nothing into a stream when the bytes behind its request are no request", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 1\n\n").flush();
    await client.until((text) => text.includes("data: 1"));
    client.send("NO HTTP\r\n\r\n");
    const text = await client.closed();
    assertEquals(text.includes(" 400 "), false);
    await until(() => stream.cancelled !== null, "the worker is told");
    assertEquals(harness.outcomes(), { cancelled: 1 });
  }));

Deno.test("App answers metrics with what it was given", async () => {
  const harness = await new FrontendHarness({}, {
    metrics: () => ({ contentType: "text/plain; version=0.0.4; charset=utf-8", body: "x 1\n" }),
  }).start();
  const response = await fetch(`${harness.base}/metrics`);
  assertEquals(await response.text(), "x 1\n");
  assert(response.headers.get("content-type")?.startsWith("text/plain; version=0.0.4"));
  await harness.close();
});
