import { assertEquals } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { FrontendHarness, rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import { instanceIdOf } from "../support/scripted_messenger.ts";
import { until } from "../support/until.ts";

/** A frontend with three workers whose answers to a request are scripted, in turn. */
async function withRefusals(
  refusals: readonly (TokenplaneError | null)[],
  test: (harness: FrontendHarness) => Promise<void>,
  options = {},
): Promise<void> {
  const harness = await new FrontendHarness(options).start();
  for (const number of [1, 2, 3]) harness.join(number);
  let at = 0;
  harness.messenger.onAckRequest = () => {
    const error = refusals[at++] ?? null;
    return error === null ? Promise.resolve() : Promise.reject(error);
  };
  // Whoever is asked whether it lives says no.
  harness.messenger.answer = () => Promise.reject(new TokenplaneError("connection", "refused"));
  await test(harness);
  await harness.close();
}

const remote = (text: string) => new TokenplaneError("remote", text);

const RETRIED: readonly (readonly [string, TokenplaneError])[] = [
  ["a worker that cannot be reached", new TokenplaneError("connection", "refused")],
  ["a worker that drains", new TokenplaneError("unavailable", "draining")],
  ["a worker at its capacity", remote("overloaded: 4 requests are running")],
  ["a worker without the model", remote("model_not_found: no such model")],
  ["a node that is no worker", new TokenplaneError("handler_not_found", "x")],
];

for (const [name, error] of RETRIED) {
  Deno.test(`Call asks the next worker behind ${name}`, () =>
    withRefusals([error, null], async (harness) => {
      const pending = harness.post();
      const first = await harness.nextStream();
      const second = await harness.nextStream();
      assertEquals(first.cancelled, "another try");
      assertEquals(first.producer === second.producer, false);
      second.head().data("data: 1\n\n").finish().flush();
      assertEquals(await (await pending).text(), "data: 1\n\n");
      assertEquals(harness.outcomes(), { ok: 1 });
      assertEquals(harness.node.stats.retries, 1);
      for (const worker of harness.node.table.workers()) assertEquals(worker.inFlight, 0);
    }));
}

const FINAL: readonly (readonly [TokenplaneError, number, string])[] = [
  [remote("invalid_request: secret"), 400, "invalid_request"],
  [remote("too_large: body"), 413, "request_too_large"],
  [remote("Something secret broke"), 502, "upstream_error"],
  [remote("internal"), 500, "internal_error"],
  [new TokenplaneError("timeout", "no answer"), 504, "timeout"],
  [new TokenplaneError("protocol", "secret"), 502, "upstream_error"],
];

for (const [error, status, code] of FINAL) {
  Deno.test(`Call gives up at once on ${error.code} "${error.message}"`, () =>
    withRefusals([error], async (harness) => {
      const response = await harness.post();
      const text = await response.text();
      assertEquals([response.status, JSON.parse(text).error.code], [status, code]);
      assertEquals(text.toLowerCase().includes("secret"), false);
      assertEquals(harness.plane.streams.length, 1);
      assertEquals(harness.plane.live, 0);
    }));
}

Deno.test("Call gives up after its bounded number of tries, with the last reason", () =>
  withRefusals(Array.from({ length: 9 }, () => remote("overloaded")), async (harness) => {
    const response = await harness.post();
    assertEquals(response.status, 503);
    await response.body?.cancel();
    assertEquals(harness.plane.streams.length, 2);
    assertEquals([harness.outcomes(), harness.node.stats.refused], [{}, { overloaded: 1 }]);
  }, { maxAttempts: 2, overloadStatus: 503 }));

Deno.test("Call asks another worker when the stream is dropped before its first record, never after", () =>
  withRefusals([], async (harness) => {
    const pending = harness.post();
    (await harness.nextStream()).head().drop().flush();
    const second = await harness.nextStream();
    second.head().data("data: 1\n\n").flush();
    const response = await pending;
    second.drop().flush();
    const text = await response.text();
    assertEquals(text.startsWith("data: 1\n\ndata: {"), true);
    assertEquals(harness.plane.streams.length, 2);
    assertEquals(harness.outcomes(), { dropped: 1 });
  }));

Deno.test("Call keeps to a worker whose record came before its refusal", () =>
  withFrontend({}, async (harness) => {
    const { promise, reject } = Promise.withResolvers<void>();
    harness.messenger.onAckRequest = () => promise;
    const pending = harness.post();
    const stream = await harness.nextStream();
    stream.head().data("data: 1\n\n").flush();
    reject(new TokenplaneError("timeout", "the acknowledgement is late"));
    await Promise.resolve();
    stream.data("data: 2\n\n").finish().flush();
    assertEquals(await (await pending).text(), "data: 1\n\ndata: 2\n\n");
    assertEquals(harness.outcomes(), { ok: 1 });
  }));

Deno.test("Call is refused when every worker is at its capacity", async () => {
  const harness = await new FrontendHarness().start();
  harness.join(1, ["m"], { capacity: 1 });
  const first = harness.post();
  const stream = await harness.nextStream();
  const second = await harness.post();
  assertEquals(second.status, 429);
  await second.body?.cancel();
  stream.head().data("data: 1\n\n").finish().flush();
  await (await first).body?.cancel();
  await harness.close();
});

interface Leave {
  readonly name: string;
  readonly prepare: (client: RawClient, harness: FrontendHarness) => Promise<void>;
}

const LEAVES: readonly Leave[] = [
  { name: "before the first record", prepare: () => Promise.resolve() },
  {
    name: "with the head known",
    prepare: (_client, harness) => {
      harness.plane.streams[0]!.head();
      return Promise.resolve();
    },
  },
  {
    name: "behind the first record",
    prepare: async (client, harness) => {
      harness.plane.streams[0]!.head().data("data: 1\n\n").flush();
      await client.until((text) => text.includes("data: 1"));
    },
  },
  {
    name: "in mid-stream",
    prepare: async (client, harness) => {
      harness.plane.streams[0]!.head();
      for (let i = 0; i < 10; i++) harness.plane.streams[0]!.data(`data: ${i}\n\n`).flush();
      await client.until((text) => text.includes("data: 9"));
    },
  },
  {
    name: "inside a body that is gathered",
    prepare: (_client, harness) => {
      harness.plane.streams[0]!.head(200, "application/json").data("{").flush();
      return Promise.resolve();
    },
  },
];

for (const { name, prepare } of LEAVES) {
  for (const how of ["closes", "resets", "half-closes"] as const) {
    Deno.test(`Call tells the worker at once when the client ${how} ${name}`, () =>
      withFrontend({}, async (harness) => {
        const client = await RawClient.connect(harness.port);
        client.send(rawChat());
        const stream = await harness.nextStream();
        await prepare(client, harness);
        const before = performance.now();
        if (how === "closes") client.socket.destroy();
        else if (how === "resets") client.socket.resetAndDestroy();
        else client.socket.end();
        await until(() => stream.cancelled !== null, "the worker is told");
        assertEquals(performance.now() - before < 200, true);
        stream.data("data: late\n\n").finish().flush();
        await until(() => harness.node.openRequests === 0, "no open request");
        assertEquals(harness.outcomes(), { cancelled: 1 });
        assertEquals(harness.node.stats.live + harness.node.stats.queued, 0);
        assertEquals(harness.node.table.worker(instanceIdOf(1))!.inFlight, 0);
        await client.closed();
      }));
  }
}

Deno.test("Call tells the worker when the connection of a response that still waits its turn is lost", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat() + rawChat());
    const first = await harness.nextStream();
    const second = await harness.nextStream();
    second.head().data("data: 1\n\n").flush();
    await client.close();
    await until(() => first.cancelled !== null && second.cancelled !== null, "both workers are told");
    await until(() => harness.node.openRequests === 0, "no open request");
    assertEquals(harness.outcomes(), { cancelled: 2 });
  }));

Deno.test("Call counts a client that leaves behind the last byte as served", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 1\n\n").finish().flush();
    await client.close();
    await until(() => harness.node.openRequests === 0, "no open request");
    assertEquals(harness.outcomes(), { ok: 1 });
    assertEquals(stream.cancelled, null);
  }));

Deno.test("Dispatcher forgets a client that leaves inside its body", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat().slice(0, -5));
    await until(() => harness.node.openRequests === 1, "the body is being read");
    await client.close();
    await until(() => harness.node.openRequests === 0, "no open request");
    assertEquals(harness.plane.streams.length, 0);
    assertEquals(harness.node.stats.refused, { cancelled: 1 });
  }));
