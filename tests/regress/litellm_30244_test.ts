/**
 * BerriAI/litellm#30244 (kin: vllm-project/production-stack#634; ai-dynamo/dynamo#15001 for the full output): the client
 * pressed stop, reading stopped, nobody closed the upstream connection, and the GPU slot stayed busy. Fails when the
 * server does not see its connection close within 200 ms of the abort, or when something is left behind.
 */
import { assert, assertEquals } from "@std/assert";
import { systemClock } from "../../src/clock.ts";
import { OpenAiEngine } from "../../src/worker/engines/openai.ts";
import { chatRequest, RecordingOutput } from "../support/recording_output.ts";
import { type ScriptedConnection, ScriptedServer } from "../support/scripted_server.ts";

const EVENT = 'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n';

/** Runs one request, aborts it once `answer` has called `ready`, and returns how long the server took to notice. */
async function abortLatency(
  answer: (connection: ScriptedConnection) => Promise<void>,
  isReady: (output: RecordingOutput) => boolean,
  prepare: (output: RecordingOutput) => void = () => {},
  body: Record<string, unknown> = {},
): Promise<number> {
  const ready = Promise.withResolvers<void>();
  const gone = Promise.withResolvers<number>();
  const output = new RecordingOutput();
  prepare(output);
  await using server = new ScriptedServer(async (connection) => {
    await connection.readRequest();
    if (isReady(output)) ready.resolve();
    await answer(connection);
    await connection.gone();
    gone.resolve(performance.now());
  });
  const engine = new OpenAiEngine({ clock: systemClock, url: server.url });
  output.onData = () => isReady(output) && ready.resolve();
  engine.run(chatRequest(body), output);
  await ready.promise;
  const start = performance.now();
  output.abort();
  assertEquals(engine.running, 0);
  const latency = await gone.promise - start;
  assertEquals(output.summary, null);
  await engine.close();
  return latency;
}

Deno.test("OpenAiEngine closes the upstream connection within 200 ms of an abort", async (t) => {
  async function start(connection: ScriptedConnection): Promise<void> {
    await connection.start();
    await connection.chunk(EVENT);
  }
  const cases: [string, () => Promise<number>][] = [
    ["before the head", () => abortLatency(() => Promise.resolve(), () => true)],
    ["after the first event", () => abortLatency(start, (output) => output.chunks.length === 1)],
    [
      "not streamed, before the head",
      () => abortLatency(() => Promise.resolve(), () => true, () => {}, { stream: false }),
    ],
    [
      "while the output is full",
      () =>
        abortLatency(start, (output) => output.chunks.length === 1, (output) => {
          output.writable = false;
        }),
    ],
  ];
  for (const [name, run] of cases) {
    await t.step(name, async () => {
      const latency = await run();
      assert(latency < 200, `it took ${latency} ms`);
    });
  }
});

Deno.test("OpenAiEngine never connects for a request that was aborted before", async () => {
  await using server = new ScriptedServer(() => Promise.resolve());
  const engine = new OpenAiEngine({ clock: systemClock, url: server.url });
  const output = new RecordingOutput();
  output.abort();
  engine.run(chatRequest(), output);
  assertEquals([engine.running, server.accepted], [0, 0]);
  await engine.close();
});

Deno.test("OpenAiEngine leaves no descriptor behind after many aborts", async () => {
  const descriptors = () => [...Deno.readDirSync("/proc/self/fd")].length;
  let closed = 0;
  await using server = new ScriptedServer(async (connection) => {
    await connection.readRequest();
    await connection.start();
    await connection.chunk(EVENT);
    await connection.gone();
    closed++;
  });
  const engine = new OpenAiEngine({ clock: systemClock, url: server.url });
  async function abortOne(): Promise<void> {
    const output = new RecordingOutput();
    const first = Promise.withResolvers<void>();
    output.onData = () => first.resolve();
    engine.run(chatRequest(), output);
    await first.promise;
    output.abort();
  }
  async function settle(expected: number): Promise<void> {
    while (closed < expected) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  for (let i = 0; i < 20; i++) await abortOne();
  await settle(20);
  const before = descriptors();
  for (let i = 0; i < 300; i++) await abortOne();
  await settle(320);
  assert(descriptors() <= before + 2, `${descriptors()} descriptors, ${before} before`);
  assertEquals(engine.running, 0);
  await engine.close();
});
