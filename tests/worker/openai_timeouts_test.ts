import { assertEquals } from "@std/assert";
import { delay } from "@std/async";
import { startRequest, withEngine } from "../support/engine_under_test.ts";
import { chatRequest } from "../support/recording_output.ts";

Deno.test("OpenAiEngine answers 504 when the head does not come in time", async () => {
  await withEngine(async (connection) => {
    await connection.readRequest();
    await connection.gone();
  }, async (engine) => {
    const output = startRequest(engine);
    const summary = await output.ended;
    assertEquals([output.status, summary.outcome], [504, "timeout"]);
  }, { headersTimeoutMs: 30 });
});

Deno.test("OpenAiEngine lets an answer that is not streamed take its whole time, before its head and inside", async () => {
  await withEngine(async (connection) => {
    await connection.readRequest();
    await delay(150);
    await connection.start("application/json");
    await delay(150);
    await connection.chunk("{}");
    await connection.finish();
  }, async (engine) => {
    const output = startRequest(engine, chatRequest({ stream: false }));
    const summary = await output.ended;
    assertEquals([output.status, summary.outcome], [200, "ok"]);
  }, { headersTimeoutMs: 30, idleTimeoutMs: 30 });
});

Deno.test("OpenAiEngine waits for an answer that is not streamed no longer than its own bound", async () => {
  await withEngine(async (connection) => {
    await connection.readRequest();
    await connection.gone();
  }, async (engine) => {
    const output = startRequest(engine, chatRequest({ stream: false }));
    const summary = await output.ended;
    assertEquals([output.status, summary.outcome], [504, "timeout"]);
  }, { wholeTimeoutMs: 30 });
});

Deno.test("OpenAiEngine ends a stream that falls silent and closes its connection", async () => {
  const closed = Promise.withResolvers<void>();
  await withEngine(async (connection) => {
    await connection.readRequest();
    await connection.start();
    await connection.chunk("data: {}\n\n");
    await connection.gone();
    closed.resolve();
  }, async (engine) => {
    const output = startRequest(engine);
    const summary = await output.ended;
    assertEquals([output.status, summary.outcome], [200, "timeout"]);
    await closed.promise;
    assertEquals(engine.running, 0);
  }, { idleTimeoutMs: 50 });
});

Deno.test("OpenAiEngine waits no longer than its limit for a connection", async () => {
  await withEngine(async (connection) => {
    await connection.readRequest();
    await connection.gone();
  }, async (engine) => {
    const first = startRequest(engine);
    const second = startRequest(engine);
    assertEquals((await second.ended).outcome, "timeout");
    assertEquals(second.status, 503);
    first.abort();
  }, { maxConnections: 1, connectTimeoutMs: 50 });
});
