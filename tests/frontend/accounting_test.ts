import { assertEquals } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { createLogger } from "../../src/observe/log.ts";
import { FrontendHarness } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

interface Case {
  readonly name: string;
  readonly workers?: number;
  readonly fields?: Record<string, unknown>;
  readonly refusal?: TokenplaneError;
  /** What the worker answers once it has taken the request. */
  readonly answer?: readonly [status: number, outcome: "ok" | "upstream_error"];
  readonly status: number;
  readonly refused?: Record<string, number>;
  readonly outcomes?: Record<string, number>;
  readonly level: string | undefined;
}

const remote = (text: string) => new TokenplaneError("remote", text);

const CASES: readonly Case[] = [
  {
    name: "an unknown model",
    fields: { model: "other" },
    status: 404,
    refused: { model_not_found: 1 },
    level: "info",
  },
  { name: "no worker at all", workers: 0, status: 503, refused: { unavailable: 1 }, level: "warn" },
  {
    name: "a worker that finds the request wrong",
    refusal: remote("invalid_request: no"),
    status: 400,
    refused: { invalid_request: 1 },
    level: "info",
  },
  {
    name: "a worker that is full",
    refusal: remote("overloaded: no"),
    status: 429,
    refused: { overloaded: 1 },
    level: "info",
  },
  {
    name: "a worker that breaks",
    refusal: remote("Something broke"),
    status: 502,
    outcomes: { upstream_error: 1 },
    level: "warn",
  },
  { name: "an engine's 400", answer: [400, "ok"], status: 400, outcomes: { ok: 1 }, level: "info" },
  { name: "an engine's 429", answer: [429, "ok"], status: 429, outcomes: { ok: 1 }, level: "info" },
  {
    name: "an engine's 500",
    answer: [500, "upstream_error"],
    status: 500,
    outcomes: { upstream_error: 1 },
    level: "warn",
  },
  { name: "an answer", answer: [200, "ok"], status: 200, outcomes: { ok: 1 }, level: undefined },
];

for (const { name, workers = 1, fields = {}, refusal, answer, status, ...wanted } of CASES) {
  Deno.test(`Call counts and logs ${name} once, as what it is`, async () => {
    const lines: { level: string; event: string }[] = [];
    const log = createLogger({ format: "json", write: (line) => lines.push(JSON.parse(line)) });
    const harness = await new FrontendHarness({}, { log }).start();
    if (workers > 0) harness.join();
    if (refusal !== undefined) harness.messenger.onAckRequest = () => Promise.reject(refusal);
    const pending = harness.post({ stream: false, ...fields });
    if (answer !== undefined) {
      const stream = await harness.nextStream();
      // Its acceptance comes first.
      await Promise.resolve();
      stream.head(answer[0], "application/json").data("{}").summary(answer[1], []).end().flush();
    }
    const response = await pending;
    await response.body?.cancel();
    assertEquals(response.status, status);
    await until(() => harness.node.openRequests === 0, "no open request");
    const { stats } = harness.node;
    assertEquals(harness.outcomes(), wanted.outcomes ?? {});
    assertEquals(stats.refused, wanted.refused ?? {});
    const statuses = [...stats.responses.entries()].filter(([, count]) => count > 0);
    assertEquals(statuses, [[`${status}`, 1]]);
    const wasAsked = workers > 0 && fields["model"] === undefined;
    assertEquals(stats.requests.chat_completions.unary.started, wasAsked ? 1 : 0);
    assertEquals(stats.live + stats.queued, 0);
    const ends = lines.filter((line) => line.event.startsWith("request_"));
    assertEquals(ends.map((line) => line.level), wanted.level === undefined ? [] : [wanted.level]);
    await harness.close();
  });
}

Deno.test("Call counts a stream that breaks off by its outcome, and by the status that its client got", async () => {
  const levels: string[] = [];
  const log = createLogger({
    format: "json",
    write: (text) => {
      const line = JSON.parse(text);
      if (line.event === "request_ended") levels.push(line.level);
    },
  });
  const harness = await new FrontendHarness({}, { log }).start();
  harness.join();
  const pending = harness.post();
  (await harness.nextStream()).head().data("data: 1\n\n").drop().flush();
  await (await pending).text();
  assertEquals(harness.outcomes(), { dropped: 1 });
  assertEquals(Object.fromEntries(harness.node.stats.responses.entries())["200"], 1);
  assertEquals(levels, ["warn"]);
  await harness.close();
});
