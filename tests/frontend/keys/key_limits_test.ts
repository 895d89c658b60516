import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { deadline } from "@std/async";
import { entryFor, type KeyEntry } from "../../../src/frontend/keys/key_entry.ts";
import { duration } from "../../../src/frontend/keys/key_limiter.ts";
import { addKeyMetrics } from "../../../src/frontend/keys/key_metrics.ts";
import { KeyMemory } from "../../../src/frontend/keys/key_memory.ts";
import { KeyRing } from "../../../src/frontend/keys/key_ring.ts";
import type { FrontendOptions } from "../../../src/frontend/options.ts";
import { TokenplaneError } from "../../../src/errors.ts";
import { createLogger } from "../../../src/observe/log.ts";
import { Collectors } from "../../../src/observe/metrics.ts";
import { FrontendHarness, parseRaw, rawChat, RawClient } from "../../support/frontend_harness.ts";
import { Page } from "../../support/metrics_page.ts";
import { until } from "../../support/until.ts";
import { VirtualClock } from "../../support/virtual_clock.ts";

const LIMIT_MS = 30_000;
const KEY = "sk-alpha-secret";
const OTHER = "sk-beta-secret";
const bearer = (key: string) => `authorization: Bearer ${key}\r\n`;

interface World {
  readonly harness: FrontendHarness;
  readonly memory: KeyMemory;
  readonly ring: KeyRing;
  readonly clock: VirtualClock;
  readonly log: string[];
  /** Requests under way by the first key. */
  readonly running: () => number;
}

async function withKeys(
  entries: readonly KeyEntry[],
  test: (world: World) => Promise<void>,
  options: Partial<FrontendOptions> = {},
): Promise<void> {
  const log: string[] = [];
  const clock = new VirtualClock();
  const memory = new KeyMemory(1);
  const ring = new KeyRing(memory);
  const set = ring.replace(entries, false);
  // Time passes here; the worker stays.
  const harness = await new FrontendHarness({ joinIntervalMs: 1_000_000, ...options }, {
    keys: { set, memory, column: 0 },
    clock,
    log: createLogger({ level: "debug", write: (line) => log.push(line) }),
  }).start();
  harness.join();
  try {
    const running = () => memory.running(set.keys[0]!.place);
    await deadline(test({ harness, memory, ring, clock, log, running }), LIMIT_MS);
    assert(!log.join("").includes("secret"), "a key is in the log");
  } finally {
    await harness.close();
  }
}

/** Posts and reads the whole answer of a stream that a worker ends at once. */
async function complete(harness: FrontendHarness, key = KEY, fields = {}): Promise<Response> {
  const pending = harness.post(fields, { headers: { authorization: `Bearer ${key}` } });
  const stream = await harness.nextStream();
  stream.head().data("data: [DONE]\n\n").finish().flush();
  const response = await pending;
  await response.text();
  return response;
}

function limitsOf({ headers }: Response): (string | null)[] {
  return ["limit", "remaining", "reset"].map((what) => headers.get(`x-ratelimit-${what}-requests`));
}

Deno.test("KeyLimiter refuses what is beyond a key's rate, in OpenAI's form, and lets others pass", () => {
  const limits = { rpm: 2, concurrent: 0 };
  return withKeys([entryFor(KEY, limits, "alpha"), entryFor(OTHER, limits)], async ({ harness, clock }) => {
    assertEquals(limitsOf(await complete(harness)), ["2", "1", "30s"]);
    clock.advance(10_000);
    assertEquals(limitsOf(await complete(harness)), ["2", "0", "50s"]);
    const refused = await harness.post({}, { headers: { authorization: `Bearer ${KEY}` } });
    assertEquals([refused.status, ...limitsOf(refused)], [429, "2", "0", "50s"]);
    assertEquals([refused.headers.get("retry-after"), refused.headers.get("retry-after-ms")], [
      "20",
      "20000",
    ]);
    assertEquals(await refused.json(), {
      error: {
        message: "Rate limit reached: this key may send 2 requests per minute. Try again in 20s.",
        type: "requests",
        param: null,
        code: "rate_limit_exceeded",
      },
    });
    assertEquals(limitsOf(await complete(harness, OTHER)), ["2", "1", "30s"]);
    clock.advance(19_999);
    const early = await harness.post({}, { headers: { authorization: `Bearer ${KEY}` } });
    assertEquals([early.status, early.headers.get("retry-after")], [429, "1"]);
    await early.body?.cancel();
    clock.advance(1);
    assertEquals(limitsOf(await complete(harness)), ["2", "0", "1m0s"]);
    assertEquals(harness.node.stats.refused, { rate_limited: 2 });
    assertEquals([...harness.node.stats.responses.entries()].filter(([, count]) => count > 0), [["200", 4], [
      "429",
      2,
    ]]);
  });
});

Deno.test("KeyLimiter says what is left on every kind of answer", () =>
  withKeys([entryFor(KEY, { rpm: 100, concurrent: 0 })], async ({ harness }) => {
    const headers = { authorization: `Bearer ${KEY}` };
    // Streamed, by the way that writes its own head.
    assertEquals(limitsOf(await complete(harness)), ["100", "99", "600ms"]);
    const whole = harness.post({ stream: false }, { headers });
    (await harness.nextStream()).head(200, "application/json").data("{}").finish().flush();
    assertEquals([await (await whole).text(), ...limitsOf(await whole)], ["{}", "100", "98", "1.2s"]);
    const wrong = await harness.post({ model: "nope" }, { headers });
    assertEquals([wrong.status, limitsOf(wrong)[1]], [404, "97"]);
    await wrong.body?.cancel();
    const failing = harness.post({}, { headers });
    (await harness.nextStream()).head().end({ kind: "dropped", reason: "x" }).flush();
    const failed = await failing;
    assertEquals([failed.status, limitsOf(failed)[1]], [502, "96"]);
    await failed.body?.cancel();
  }, { maxAttempts: 1 }));

Deno.test("KeyLimiter sets no headers for a key without a rate", () =>
  withKeys([entryFor(KEY, { rpm: 0, concurrent: 5 })], async ({ harness }) => {
    assertEquals(limitsOf(await complete(harness)), [null, null, null]);
  }));

Deno.test("KeyLimiter counts neither a wrong key nor what is no completion", () =>
  withKeys([entryFor(KEY, { rpm: 1, concurrent: 1 })], async ({ harness, running }) => {
    for (const key of ["nobody", KEY.slice(0, -1)]) {
      const answer = await harness.post({}, { headers: { authorization: `Bearer ${key}` } });
      assertEquals([answer.status, ...limitsOf(answer)], [401, null, null, null]);
      await answer.body?.cancel();
    }
    const models = await fetch(`${harness.base}/v1/models`, { headers: { authorization: `Bearer ${KEY}` } });
    assertEquals([models.status, ...limitsOf(models)], [200, null, null, null]);
    await models.body?.cancel();
    assertEquals(running(), 0);
    assertEquals(limitsOf(await complete(harness))[1], "0");
  }));

/** Every way in which a request that holds its key's one place can end. */
const ENDS: Readonly<Record<string, (world: World, client: RawClient) => Promise<void>>> = {
  async "a whole stream"({ harness }, client) {
    client.send(rawChat({}, bearer(KEY)));
    (await harness.nextStream()).head().data("data: [DONE]\n\n").finish().flush();
    await client.until((text) => text.endsWith("0\r\n\r\n"));
  },
  async "an answer that is not streamed"({ harness }, client) {
    client.send(rawChat({ stream: false }, bearer(KEY)));
    (await harness.nextStream()).head(200, "application/json").data("{}").finish().flush();
    await client.until((text) => text.endsWith("{}"));
  },
  async "a client that leaves before the first byte"({ harness }, client) {
    client.send(rawChat({}, bearer(KEY)));
    await harness.nextStream();
    await client.close();
  },
  async "a client that leaves inside the stream"({ harness }, client) {
    client.send(rawChat({}, bearer(KEY)));
    (await harness.nextStream()).head().data("data: 0\n\n").flush();
    await client.until((text) => text.includes("data: 0"));
    await client.close();
  },
  async "a client that leaves inside its body"({ running }, client) {
    client.send(rawChat({}, bearer(KEY)).slice(0, -5));
    await until(() => running() === 1, "the request to be counted");
    await client.close();
  },
  async "a body that does not come in time"({ running }, client) {
    client.send(rawChat({}, bearer(KEY)).slice(0, -5));
    await until(() => running() === 1, "the request to be counted");
    await client.closed();
  },
  async "a body that is refused"(_world, client) {
    client.send(`POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-length: 1\r\n${bearer(KEY)}\r\n{`);
    assertEquals(parseRaw(await client.until((text) => parseRaw(text) !== null))!.status, 400);
  },
  async "a body that is too large"(_world, client) {
    client.send(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\ncontent-length: 99999999\r\n${bearer(KEY)}\r\n{`,
    );
    assertEquals(parseRaw(await client.until((text) => parseRaw(text) !== null))!.status, 413);
    await client.close();
  },
  async "a model that nobody has"(_world, client) {
    client.send(rawChat({ model: "nope" }, bearer(KEY)));
    assertEquals(parseRaw(await client.until((text) => parseRaw(text) !== null))!.status, 404);
  },
  async "a worker that refuses"({ harness }, client) {
    harness.messenger.onAckRequest = () => Promise.reject(new TokenplaneError("remote", "overloaded: full"));
    client.send(rawChat({}, bearer(KEY)));
    assertEquals(parseRaw(await client.until((text) => parseRaw(text) !== null))!.status, 429);
  },
  async "a worker that is lost before the first byte"({ harness }, client) {
    client.send(rawChat({}, bearer(KEY)));
    (await harness.nextStream()).end({ kind: "dropped", reason: "lost" }).flush();
    assertEquals(parseRaw(await client.until((text) => parseRaw(text) !== null))!.status, 502);
  },
  async "a worker that is lost inside the stream"({ harness }, client) {
    client.send(rawChat({}, bearer(KEY)));
    (await harness.nextStream()).head().data("data: 0\n\n").end({ kind: "dropped", reason: "lost" }).flush();
    await client.until((text) => text.endsWith("0\r\n\r\n"));
  },
  async "a first byte that does not come in time"({ harness, clock }, client) {
    client.send(rawChat({}, bearer(KEY)));
    await harness.nextStream();
    clock.advance(400_000);
    assertEquals(parseRaw(await client.until((text) => parseRaw(text) !== null))!.status, 504);
  },
  async "a client that stops to read"({ harness, clock }, client) {
    client.send(rawChat({}, bearer(KEY)));
    const stream = await harness.nextStream();
    stream.head().data("data: 0\n\n").flush();
    await client.until((text) => text.includes("data: 0"));
    client.socket.pause();
    const item = new Uint8Array(256 * 1024).fill(0x78);
    for (let i = 0; i < 1_000 && !stream.isPaused; i++) stream.data(item).flush();
    clock.advance(400_000);
    client.socket.resume();
    await client.closed();
  },
  async "a request behind another on its connection, which closes"({ harness, ring, memory }, client) {
    // The first is another key's, so that the second is let in; it never gets to be answered.
    const set = ring.replace([
      entryFor(KEY, { rpm: 0, concurrent: 1 }),
      entryFor(OTHER, { rpm: 0, concurrent: 0 }),
    ], false);
    harness.node.keys.use(set);
    client.send(rawChat({}, bearer(OTHER)) + rawChat({}, bearer(KEY)));
    await harness.nextStream();
    await harness.nextStream();
    assertEquals(set.keys.map(({ place }) => memory.running(place)), [1, 1]);
    await client.close();
    await until(() => memory.running(set.keys[1]!.place) === 0, "the first to end");
  },
  async "a key that is taken out meanwhile"({ harness, ring }, client) {
    client.send(rawChat({}, bearer(KEY)));
    const stream = await harness.nextStream();
    harness.node.keys.use(ring.replace([], false));
    const refused = await harness.post({}, { headers: { authorization: `Bearer ${KEY}` } });
    assertEquals(refused.status, 401);
    await refused.body?.cancel();
    // What runs goes on.
    stream.head().data("data: [DONE]\n\n").finish().flush();
    await client.until((text) => text.endsWith("0\r\n\r\n"));
    harness.node.keys.use(ring.replace([entryFor(KEY, { rpm: 0, concurrent: 1 })], false));
  },
  async "a frontend that drains"({ harness }, client) {
    harness.node.beginDrain();
    client.send(rawChat({}, bearer(KEY)));
    assertEquals(parseRaw(await client.until((text) => parseRaw(text) !== null))!.status, 503);
  },
  async "a frontend that closes"({ harness }, client) {
    client.send(rawChat({}, bearer(KEY)));
    (await harness.nextStream()).head().data("data: 0\n\n").flush();
    await client.until((text) => text.includes("data: 0"));
    await harness.close();
  },
};

for (const [name, end] of Object.entries(ENDS)) {
  Deno.test(`KeyLimiter gives a place back after ${name}`, () =>
    withKeys([entryFor(KEY, { rpm: 0, concurrent: 1 })], async (world) => {
      const { harness, memory, running } = world;
      let entered = 0;
      const enter = memory.enter.bind(memory);
      memory.enter = (...args) => enter(...args) && ++entered > 0;
      const client = await RawClient.connect(harness.port);
      await end(world, client);
      await until(() => running() === 0, "the place to be given back");
      await client.close();
      assertEquals(running(), 0);
      assert(entered > 0, "no request got as far as its key's limits");
    }, { requestTimeoutMs: 400, headersTimeoutMs: 400, maxAttempts: 1 }));
}

Deno.test("KeyLimiter refuses a request beyond those at one time, without a turn of the rate", () =>
  withKeys([entryFor(KEY, { rpm: 10, concurrent: 2 }, "alpha")], async ({ harness, running }) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat({}, bearer(KEY)));
    const first = await harness.nextStream();
    const second = harness.post({}, { headers: { authorization: `Bearer ${KEY}` } });
    const ended = await harness.nextStream();
    const refused = await harness.post({}, { headers: { authorization: `Bearer ${KEY}` } });
    assertEquals([refused.status, refused.headers.get("retry-after"), running()], [429, "7", 2]);
    const { error } = await refused.json();
    assertEquals(
      [error.code, error.message],
      ["rate_limit_exceeded", "Rate limit reached: this key may have 2 requests at one time."],
    );
    ended.head().data("data: [DONE]\n\n").finish().flush();
    await (await second).text();
    await until(() => running() === 1, "the second to end");
    assertEquals(limitsOf(await complete(harness)), ["10", "7", "18s"]);
    first.head().data("data: [DONE]\n\n").finish().flush();
    await client.until((text) => text.endsWith("0\r\n\r\n"));
    await client.close();
  }, { retryAfterSeconds: 7 }));

Deno.test("A key is known by its name in logs and metrics, and shows in neither", () =>
  withKeys(
    [entryFor(KEY, { rpm: 1, concurrent: 0 }, "alpha"), entryFor(OTHER, { rpm: 0, concurrent: 0 })],
    async (world) => {
      const { harness, log, ring } = world;
      const collectors = new Collectors();
      addKeyMetrics(collectors, harness.node.keys, harness.node.limiter);
      await complete(harness);
      await complete(harness, OTHER);
      await (await harness.post({}, { headers: { authorization: `Bearer ${KEY}` } })).body?.cancel();
      const client = await RawClient.connect(harness.port);
      client.send(rawChat({}, bearer(OTHER)));
      await harness.nextStream();
      const { body } = await collectors.page();
      assert(!body.includes("secret"));
      const page = new Page(body);
      const id = entryFor(OTHER, { rpm: 0, concurrent: 0 }).name;
      const read = (name: string, labels: Record<string, string>) =>
        page.value(`tokenplane_frontend_key_${name}`, labels);
      assertEquals(["alpha", id].map((key) => read("requests_total", { key })), [2, 2]);
      assertEquals(["alpha", id].map((key) => read("inflight_requests", { key })), [0, 1]);
      assertEquals(read("limited_total", { key: "alpha", limit: "rate" }), 1);
      assertEquals(read("limited_total", { key: "alpha", limit: "concurrency" }), 0);
      await client.close();
      await until(() => log.some((line) => line.includes("outcome=cancelled")), "the last to be logged");
      const lines = log.filter((line) => /request_(?:ended|refused)/.test(line));
      assertEquals(lines.map((line) => /key_name=(\S+)/.exec(line)?.[1]), ["alpha", id, "alpha", id]);
      assertStringIncludes(lines[2]!, "reason=rate_limited");
      assertMatch(id, /^key-[0-9a-f]{8}$/);
      // A name that stays keeps its counts; one that goes takes its series with it.
      harness.node.keys.use(
        ring.replace([entryFor("sk-new-secret", { rpm: 0, concurrent: 0 }, "alpha")], false),
      );
      const later = new Page((await collectors.page()).body);
      assertEquals(later.value("tokenplane_frontend_key_requests_total", { key: "alpha" }), 2);
      assert(!(await collectors.page()).body.includes(id));
    },
  ));

Deno.test("duration writes times as OpenAI does, and never less than they are", () => {
  const cases = [[0, "0ms"], [0.2, "1ms"], [17, "17ms"], [999.1, "1s"], [8_640, "8.64s"], [60_000, "1m0s"], [
    359_999.5,
    "6m0s",
  ]] as const;
  for (const [ms, text] of cases) assertEquals(duration(ms), text);
});
