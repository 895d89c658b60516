/**
 * honojs/hono#2068: after the client had left, a write of 64 KiB events waited for ever for a reader that was gone. And a
 * handler that threw sent the text of the exception to the client, then ended the body as if all were well. Fails when a
 * request outlives its client, or when a failure of ours shows its text or counts as a success.
 */
import { assertEquals } from "@std/assert";
import { parseRaw, rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

Deno.test("Frontend lets go of a request at once when its client leaves behind two large events", () =>
  withFrontend({}, async (harness) => {
    const event = `data: ${"x".repeat(64 * 1024 - 8)}\n\n`;
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data(event).flush().data(event).flush();
    await client.until((text) => text.length > 2 * event.length);
    client.socket.pause();
    for (let i = 0; i < 500 && !stream.isPaused; i++) {
      stream.data(event).flush();
      await new Promise((resolve) => setTimeout(resolve, 0));
    }
    assertEquals(stream.isPaused, true);
    client.socket.resetAndDestroy();
    await until(() => stream.cancelled !== null, "the worker is told", 1_000);
    await until(() => harness.node.openRequests === 0, "no open request", 1_000);
    assertEquals(harness.outcomes(), { cancelled: 1 });
    await client.closed();
  }));

Deno.test("Frontend tells a client of its own failure in fixed text", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 1\n\n").flush();
    stream.note('{"secret":"of the inside"}').flush();
    const { body } = parseRaw(await client.until((text) => text.endsWith("\r\n0\r\n\r\n")))!;
    assertEquals(
      body,
      'data: 1\n\ndata: {"error":{"message":"The server had an error before the response was complete.",' +
        '"type":"internal_server_error","param":null,"code":"internal_error"}}\n\ndata: [DONE]\n\n',
    );
    assertEquals(harness.outcomes(), { internal_error: 1 });
    await client.close();
  }));
