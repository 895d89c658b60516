import { assertEquals, assertLess } from "@std/assert";
import v8 from "node:v8";
import vm from "node:vm";
import { chatBody, RawClient, withFrontend } from "../support/frontend_harness.ts";

const PROMPT_BYTES = 1_000_000;
const STREAMS = 24;

/** Bytes outside the heap after a full collection. */
function external(): number {
  v8.setFlagsFromString("--expose-gc");
  (vm.runInNewContext("gc") as () => void)();
  return Deno.memoryUsage().external;
}

Deno.test("Call lets a prompt go with the first record of its answer", () =>
  withFrontend({}, async (harness) => {
    const body = JSON.stringify(
      chatBody({ messages: [{ role: "user", content: "x".repeat(PROMPT_BYTES) }] }),
    );
    const before = external();
    const clients: RawClient[] = [];
    const streams = [];
    for (let n = 0; n < STREAMS; n++) {
      const client = await RawClient.connect(harness.port);
      client.send(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n` +
          `content-length: ${body.length}\r\n\r\n${body}`,
      );
      clients.push(client);
      const stream = await harness.nextStream();
      streams.push(stream.head().data("data: 1\n\n").flush());
    }
    // What the scripted worker was sent is the test's own.
    harness.requests.length = 0;
    assertLess(external() - before, STREAMS * PROMPT_BYTES / 4);
    for (const stream of streams) stream.data("data: [DONE]\n\n").finish().flush();
    for (const client of clients) {
      await client.until((text) => text.endsWith("0\r\n\r\n"));
      await client.close();
    }
    assertEquals(harness.outcomes(), { ok: STREAMS });
  }));
