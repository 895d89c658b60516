import { assertEquals, assertStringIncludes } from "@std/assert";
import { parseRaw, rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import { VirtualClock } from "../support/virtual_clock.ts";
import { until } from "../support/until.ts";

Deno.test("Call gives up with 504 when no record comes in time", () => {
  const clock = new VirtualClock();
  return withFrontend({ firstRecordTimeoutMs: 1_000 }, async (harness) => {
    const pending = harness.post();
    const stream = await harness.nextStream();
    stream.head().flush();
    clock.advance(900);
    assertEquals(stream.cancelled, null);
    clock.advance(400);
    assertEquals(stream.cancelled, "timeout");
    const response = await pending;
    assertEquals(response.status, 504);
    assertEquals((await response.json()).error.code, "timeout");
    assertEquals(harness.outcomes(), { timeout: 1 });
  }, { clock });
});

Deno.test("Call gives an answer that is not streamed its own time once a worker has taken the request", () => {
  const clock = new VirtualClock();
  return withFrontend({ firstRecordTimeoutMs: 1_000, wholeTimeoutMs: 10_000 }, async (harness) => {
    const pending = harness.post({ stream: false });
    const stream = await harness.nextStream();
    await Promise.resolve();
    clock.advance(9_000);
    stream.head(200, "application/json").data("{}").finish().flush();
    const response = await pending;
    assertEquals([response.status, await response.text()], [200, "{}"]);
    assertEquals(harness.outcomes(), { ok: 1 });
  }, { clock });
});

for (const begun of [false, true]) {
  Deno.test(`Call gives up on an answer that is not streamed and ${begun ? "not whole" : "absent"} in time`, () => {
    const clock = new VirtualClock();
    return withFrontend({ firstRecordTimeoutMs: 0, wholeTimeoutMs: 10_000 }, async (harness) => {
      const pending = harness.post({ stream: false });
      const stream = await harness.nextStream();
      await Promise.resolve();
      if (begun) stream.head(200, "application/json").data("{").flush();
      clock.advance(9_000);
      assertEquals(stream.cancelled, null);
      clock.advance(4_000);
      assertEquals(stream.cancelled, "timeout");
      const response = await pending;
      assertEquals([response.status, (await response.json()).error.code], [504, "timeout"]);
      assertEquals(harness.outcomes(), { timeout: 1 });
    }, { clock });
  });
}

Deno.test("Call waits for a worker to take a request that is not streamed no longer than for a first record", () => {
  const clock = new VirtualClock();
  return withFrontend({ firstRecordTimeoutMs: 1_000, wholeTimeoutMs: 10_000 }, async (harness) => {
    harness.messenger.onAckRequest = () => new Promise(() => {});
    const pending = harness.post({ stream: false });
    await harness.nextStream();
    clock.advance(1_300);
    const response = await pending;
    assertEquals(response.status, 504);
    await response.body?.cancel();
  }, { clock });
});

Deno.test("Call breaks a stream off when a record is too long in coming", () => {
  const clock = new VirtualClock();
  return withFrontend({ idleTimeoutMs: 1_000 }, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 1\n\n").flush();
    for (let i = 0; i < 5; i++) {
      clock.advance(900);
      stream.data("data: x\n\n").flush();
    }
    assertEquals(stream.cancelled, null);
    clock.advance(1_300);
    assertEquals(stream.cancelled, "timeout");
    const text = await client.until((text) => text.endsWith("\r\n0\r\n\r\n"));
    assertStringIncludes(parseRaw(text)!.body, '"code":"timeout"');
    assertEquals(harness.outcomes(), { timeout: 1 });
    await client.close();
    await until(() => harness.node.openRequests === 0, "no open request");
  }, { clock });
});

Deno.test("Call breaks a silent stream off though its client is sent keep-alives", () => {
  const clock = new VirtualClock();
  return withFrontend({ idleTimeoutMs: 4_000, sseKeepAliveMs: 1_000 }, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 1\n\n").flush();
    clock.advance(3_900);
    assertEquals([stream.cancelled, harness.node.stats.keepAlives], [null, 3]);
    clock.advance(400);
    assertEquals(stream.cancelled, "timeout");
    await client.until((text) => text.endsWith("\r\n0\r\n\r\n"));
    assertEquals(harness.outcomes(), { timeout: 1 });
    await client.close();
  }, { clock });
});

Deno.test("Call closes the connection of a client that takes nothing for too long", () => {
  const clock = new VirtualClock();
  return withFrontend({ stallTimeoutMs: 1_000 }, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 0\n\n").flush();
    await client.until((text) => text.includes("data: 0"));
    client.socket.pause();
    const item = new Uint8Array(256 * 1024).fill(0x78);
    for (let i = 0; i < 1_000 && !stream.isPaused; i++) stream.data(item).flush();
    assertEquals(stream.isPaused, true);
    clock.advance(900);
    assertEquals(stream.cancelled, null);
    clock.advance(400);
    assertEquals(stream.cancelled, "client stalled");
    assertEquals(harness.outcomes(), { cancelled: 1 });
    await until(() => harness.node.openRequests === 0, "no open request");
    await client.close();
  }, { clock });
});

Deno.test("Relay writes keep-alive comments between events only, and none behind [DONE]", () => {
  const clock = new VirtualClock();
  return withFrontend({ sseKeepAliveMs: 1_000 }, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().flush();
    clock.advance(5_000);
    stream.data("data: 1\n\n").flush();
    clock.advance(1_300);
    stream.data("data: half").flush();
    clock.advance(5_000);
    stream.data(" whole\n\n").flush();
    clock.advance(2_600);
    stream.data("data: [DONE]\n\n").flush();
    clock.advance(5_000);
    stream.finish().flush();
    const text = await client.until((text) => text.endsWith("\r\n0\r\n\r\n"));
    const alive = ": keep-alive\n\n";
    assertEquals(
      parseRaw(text)!.body,
      `data: 1\n\n${alive}data: half whole\n\n${alive}${alive}data: [DONE]\n\n`,
    );
    assertEquals(harness.node.stats.keepAlives, 3);
    await client.close();
    await until(() => harness.node.openRequests === 0, "no open request");
  }, { clock });
});

Deno.test("FrontendNode drains: refuses what is new, waits for what runs, then ends it with an error event", () => {
  const clock = new VirtualClock();
  return withFrontend({}, async (harness) => {
    const running = await RawClient.connect(harness.port);
    running.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 1\n\n").flush();
    const waiting = harness.post();
    const unborn = await harness.nextStream();
    const drained = harness.node.drain(1_000);
    for (const path of ["/health", "/v1/chat/completions"]) {
      const method = path === "/health" ? "GET" : "POST";
      const response = await fetch(harness.base + path, { method });
      assertEquals(response.status, 503);
      await response.body?.cancel();
    }
    stream.data("data: 2\n\n").flush();
    clock.advance(1_000);
    await drained;
    const text = await running.until((text) => text.endsWith("\r\n0\r\n\r\n"));
    const { body } = parseRaw(text)!;
    assertStringIncludes(body, "data: 1\n\ndata: 2\n\ndata: {");
    assertStringIncludes(body, '"code":"shutting_down"');
    assertStringIncludes(body, "data: [DONE]\n\n");
    assertEquals((await waiting).status, 503);
    await (await waiting).body?.cancel();
    assertEquals([stream.cancelled, unborn.cancelled], ["shutting_down", "unavailable"]);
    await until(() => harness.node.openRequests === 0, "no open request");
    await running.close();
  }, { clock });
});

Deno.test("FrontendNode ends a drain as soon as the last stream has ended", () =>
  withFrontend({}, async (harness) => {
    const pending = harness.post();
    const stream = await harness.nextStream();
    const drained = harness.node.drain(60_000);
    stream.head().data("data: 1\n\n").finish().flush();
    assertEquals(await (await pending).text(), "data: 1\n\n");
    await drained;
    assertEquals(harness.outcomes(), { ok: 1 });
  }));
