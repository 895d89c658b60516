import { assertEquals, assertStringIncludes } from "@std/assert";
import type { ProducerOutcome } from "../../src/outcome.ts";
import type { StreamEnd } from "../../src/stream.ts";
import { parseRaw, rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

const DONE = "data: [DONE]\n\n";

function errorEventText(code: string, message: string): string {
  const error = { message, type: "internal_server_error", param: null, code };
  return `data: ${JSON.stringify({ error })}\n\n`;
}

const LOST = errorEventText("dropped", "The worker was lost before the response was complete.");
const TRUNCATED = errorEventText("truncated", "The response ended before it was complete.");

interface Ending {
  readonly name: string;
  readonly data: readonly string[];
  readonly summary?: ProducerOutcome;
  readonly end: StreamEnd;
  readonly body: string;
  readonly outcome: string;
}

const finalized: StreamEnd = { kind: "finalized" };
const dropped: StreamEnd = { kind: "dropped", reason: "secret lane text" };

const ENDINGS: readonly Ending[] = [
  {
    name: "a clean end",
    data: ["data: 1\n\n"],
    summary: "ok",
    end: finalized,
    body: "data: 1\n\n",
    outcome: "ok",
  },
  {
    name: "a clean end without the producer's word",
    data: ["data: 1\n\n"],
    end: finalized,
    body: `data: 1\n\n${TRUNCATED}${DONE}`,
    outcome: "truncated",
  },
  {
    name: "a truncated stream",
    data: ["data: 1\n\n"],
    summary: "truncated",
    end: finalized,
    body: `data: 1\n\n${TRUNCATED}${DONE}`,
    outcome: "truncated",
  },
  {
    name: "a lost worker between events",
    data: ["data: 1\n\n", "data: 2\r\n\r\n"],
    end: dropped,
    body: `data: 1\n\ndata: 2\r\n\r\n${LOST}${DONE}`,
    outcome: "dropped",
  },
  {
    name: "a lost worker inside an event",
    data: ["data: 1\n\n", 'data: {"b":'],
    end: dropped,
    body: `data: 1\n\ndata: {"b":\n\n${LOST}${DONE}`,
    outcome: "dropped",
  },
  {
    name: "a lost worker behind [DONE]",
    data: ["data: 1\n\n", DONE],
    end: dropped,
    body: `data: 1\n\n${DONE}`,
    outcome: "dropped",
  },
  {
    name: "a producer that gave up",
    data: ["data: 1\n\n"],
    end: { kind: "transport_error", message: "secret text" },
    body: `data: 1\n\n${
      errorEventText("upstream_error", "The worker failed before the response was complete.")
    }${DONE}`,
    outcome: "upstream_error",
  },
  {
    name: "a silent producer",
    data: ["data: 1\n\n"],
    end: { kind: "timeout", reason: "secret text" },
    body: `data: 1\n\n${
      errorEventText("timeout", "The worker stopped answering before the response was complete.")
    }${DONE}`,
    outcome: "timeout",
  },
  {
    name: "a producer that broke the rules",
    data: ["data: 1\n\n"],
    end: { kind: "protocol", reason: "secret text" },
    body: `data: 1\n\n${
      errorEventText("internal_error", "The server had an error before the response was complete.")
    }${DONE}`,
    outcome: "internal_error",
  },
  {
    name: "an error that the engine delivered itself, with [DONE]",
    data: ["data: 1\n\n", 'data: {"error":{"message":"engine"},"choices":[]}\n\n', DONE],
    summary: "upstream_error",
    end: finalized,
    body: `data: 1\n\ndata: {"error":{"message":"engine"},"choices":[]}\n\n${DONE}`,
    outcome: "upstream_error",
  },
];

for (const ending of ENDINGS) {
  Deno.test(`Relay ends a stream as its client can tell, with ${ending.name}`, () =>
    withFrontend({}, async (harness) => {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat());
      const stream = await harness.nextStream();
      stream.head();
      for (const item of ending.data) stream.data(item).flush();
      if (ending.summary !== undefined) stream.summary(ending.summary);
      stream.end(ending.end).flush();
      const response = parseRaw(await client.until((text) => text.endsWith("\r\n0\r\n\r\n")))!;
      assertEquals(response.body, ending.body);
      assertEquals(response.status, 200);
      assertEquals(harness.outcomes(), { [ending.outcome]: 1 });
      // The connection is as good as after any other response.
      client.text = "";
      client.send("GET /live HTTP/1.1\r\nhost: t\r\n\r\n");
      await client.until((text) => parseRaw(text) !== null);
      assertEquals(parseRaw(client.text)!.status, 200);
      await client.close();
    }));
}

interface EarlyEnd {
  readonly name: string;
  readonly head?: readonly [number, string];
  readonly summary?: ProducerOutcome;
  readonly end: StreamEnd;
  readonly status: number;
  readonly code: string;
  readonly outcome: string;
}

const EARLY: readonly EarlyEnd[] = [
  {
    name: "a lost worker and no other",
    end: dropped,
    status: 502,
    code: "upstream_error",
    outcome: "dropped",
  },
  {
    name: "nobody who comes",
    end: { kind: "timeout", reason: "x" },
    status: 504,
    code: "timeout",
    outcome: "timeout",
  },
  {
    name: "a producer that gives up",
    end: { kind: "transport_error", message: "secret text" },
    status: 502,
    code: "upstream_error",
    outcome: "upstream_error",
  },
  {
    name: "a head and a truncated end",
    head: [200, "text/event-stream"],
    summary: "truncated",
    end: finalized,
    status: 502,
    code: "upstream_error",
    outcome: "truncated",
  },
  {
    name: "a timeout of the engine",
    head: [200, "application/json"],
    summary: "timeout",
    end: finalized,
    status: 504,
    code: "timeout",
    outcome: "timeout",
  },
  {
    name: "a broken rule",
    end: { kind: "protocol", reason: "secret text" },
    status: 500,
    code: "internal_error",
    outcome: "internal_error",
  },
];

for (const early of EARLY) {
  Deno.test(`Call answers with a real status before the first record, with ${early.name}`, () =>
    withFrontend({}, async (harness) => {
      const pending = harness.post();
      const stream = await harness.nextStream();
      if (early.head !== undefined) stream.head(...early.head);
      if (early.summary !== undefined) stream.summary(early.summary);
      stream.end(early.end).flush();
      const response = await pending;
      const body = await response.text();
      assertEquals(response.status, early.status);
      assertEquals(JSON.parse(body).error.code, early.code);
      assertEquals(body.includes("secret"), false);
      assertEquals(harness.outcomes(), { [early.outcome]: 1 });
      assertEquals(harness.node.stats.queued, 0);
    }));
}

Deno.test("Relay passes an engine's own refusal on with status and body", () =>
  withFrontend({}, async (harness) => {
    const pending = harness.post();
    const stream = await harness.nextStream();
    stream.head(422, "application/json; charset=utf-8").data('{"error":{"mess').data('age":"too long"}}')
      .summary("upstream_error", []).end().flush();
    const response = await pending;
    assertEquals(response.status, 422);
    assertEquals(response.headers.get("content-type"), "application/json; charset=utf-8");
    assertEquals(await response.text(), '{"error":{"message":"too long"}}');
    assertEquals(harness.outcomes(), { upstream_error: 1 });
  }));

Deno.test("Relay sends a whole body only when its end is known to be good", () =>
  withFrontend({}, async (harness) => {
    const good = harness.post({ stream: false });
    (await harness.nextStream()).head(200, "application/json").data('{"id":').flush().data('"1"}').finish()
      .flush();
    const response = await good;
    assertEquals(response.headers.get("content-length"), "10");
    assertEquals(await response.json(), { id: "1" });

    const bad = harness.post({ stream: false });
    (await harness.nextStream()).head(200, "application/json").data('{"id":').flush().drop().flush();
    const refused = await bad;
    assertEquals(refused.status, 502);
    assertEquals((await refused.json()).error.type, "internal_server_error");
    assertEquals(harness.outcomes(), { ok: 1, dropped: 1 });
  }));

Deno.test("Relay relays a body over its bound as it comes, and cuts the connection when it fails", () =>
  withFrontend({ maxGatherBytes: 1_000 }, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat({ stream: false }));
    const stream = await harness.nextStream();
    stream.head(200, "application/json");
    for (let i = 0; i < 4; i++) stream.data("x".repeat(400)).flush();
    stream.finish().flush();
    const response = parseRaw(await client.until((text) => text.endsWith("\r\n0\r\n\r\n")))!;
    assertEquals(response.body, "x".repeat(1_600));
    client.text = "";
    client.send(rawChat({ stream: false }));
    const second = await harness.nextStream();
    second.head(200, "application/json");
    for (let i = 0; i < 4; i++) second.data("x".repeat(400)).flush();
    await client.until((text) => text.includes("xxx"));
    second.drop().flush();
    const cut = await client.closed();
    assertEquals(parseRaw(cut), null);
    assertEquals(harness.outcomes(), { ok: 1, dropped: 1 });
  }));

Deno.test("Relay refuses data that comes before its head", () =>
  withFrontend({}, async (harness) => {
    const pending = harness.post();
    const stream = await harness.nextStream();
    stream.data("data: 1\n\n").flush();
    const response = await pending;
    assertEquals(response.status, 500);
    await response.body?.cancel();
    assertEquals(stream.cancelled, "protocol");
    assertEquals(harness.outcomes(), { internal_error: 1 });
  }));

Deno.test("Relay ends a stream whose producer sends a note that is none", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 1\n\n").flush().note("no JSON").flush();
    const text = await client.until((text) => text.endsWith("\r\n0\r\n\r\n"));
    assertStringIncludes(parseRaw(text)!.body, '"code":"internal_error"');
    assertEquals(harness.outcomes(), { internal_error: 1 });
    await client.close();
  }));

Deno.test("Relay sends an empty stream when that is what the engine says", () =>
  withFrontend({}, async (harness) => {
    const pending = harness.post();
    (await harness.nextStream()).head().finish().flush();
    const response = await pending;
    assertEquals(response.status, 200);
    assertEquals(await response.text(), "");
    assertEquals(harness.outcomes(), { ok: 1 });
    await until(() => harness.node.openRequests === 0, "no open request");
  }));
