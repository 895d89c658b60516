/** How long the duplicate of a client's descriptor lives, and that nothing is sent by it afterwards. */
import { assert, assertEquals } from "@std/assert";
import { deadline } from "@std/async";
import type { ServerResponse } from "node:http";
import { chooseEgress } from "../../src/frontend/egress/choose.ts";
import { DirectSend } from "../../src/frontend/egress/direct_send.ts";
import { frameChunk, ownChunk, PREFIX_BYTES } from "../../src/frontend/egress/chunk_slab.ts";
import { connected, directWays, GET, openDescriptors, SINK_HOST, withSink } from "../support/direct_sink.ts";
import { FrontendHarness, rawChat, RawClient } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

await chooseEgress("auto"); // what is loaded once stays open, and is no leak of a test

for (const [way, egress] of directWays()) {
  Deno.test(`SocketSink by ${way} duplicates a connection's descriptor once, and gives it back with the connection`, async () => {
    const before = openDescriptors();
    const serve = async (response: ServerResponse) => {
      response.writeHead(200);
      const sink = egress.sink(response, SINK_HOST);
      const buffer = ownChunk(1);
      const frame = frameChunk(buffer, PREFIX_BYTES, PREFIX_BYTES + 1);
      sink.write(buffer, frame, PREFIX_BYTES, PREFIX_BYTES + 1, PREFIX_BYTES + 3);
      await new Promise((resolve) => setTimeout(resolve, 20));
      sink.end();
      sink.release();
    };
    await withSink((response) => void serve(response), async (client) => {
      const connected = openDescriptors();
      for (let round = 1; round <= 3; round++) {
        client.send(GET);
        await client.until((text) => text.split("\r\n0\r\n\r\n").length > round);
        assertEquals(openDescriptors(), connected + 1, `round ${round}`);
      }
    });
    assertEquals(openDescriptors(), before);
  });

  for (const how of ["release", "end"] as const) {
    Deno.test(`SocketSink by ${way} duplicates nothing when its ${how} comes before the head is out`, async () => {
      const serve = (response: ServerResponse) => {
        response.writeHead(200);
        const sink = egress.sink(response, SINK_HOST);
        const buffer = ownChunk(1);
        const frame = frameChunk(buffer, PREFIX_BYTES, PREFIX_BYTES + 1);
        sink.write(buffer, frame, PREFIX_BYTES, PREFIX_BYTES + 1, PREFIX_BYTES + 3);
        sink[how]();
        sink.release();
        if (how === "release") response.end();
      };
      await withSink(serve, async (client) => {
        const connected = openDescriptors();
        client.send(GET);
        await client.until((text) => text.endsWith("\r\n0\r\n\r\n"));
        assertEquals(openDescriptors(), connected);
      });
    });
  }
}

Deno.test("DirectSend.of opens nothing for a connection that is gone: nobody would close it", async () => {
  const { socket, close } = await connected();
  const before = openDescriptors();
  const direct = DirectSend.of(socket)!;
  assertEquals(DirectSend.of(socket), direct);
  assertEquals(openDescriptors(), before + 1);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  socket.destroy();
  await closed;
  assertEquals(direct.descriptor, -1);
  assertEquals(DirectSend.of(socket), null);
  await close();

  const other = await connected();
  other.socket.destroy();
  assertEquals(DirectSend.of(other.socket), null);
  await other.close();
});

for (const [way, egress] of directWays()) {
  Deno.test(`SocketSink by ${way} sends nothing once its connection has closed, in its second response too`, async () => {
    let served = 0;
    const sent: boolean[] = [];
    const done = Promise.withResolvers<void>();
    const serve = async (response: ServerResponse) => {
      const isLast = ++served === 2;
      response.writeHead(200);
      const sink = egress.sink(response, SINK_HOST);
      const write = (room: number) => {
        const buffer = ownChunk(1, room);
        const at = room + PREFIX_BYTES;
        return sink.write(buffer, frameChunk(buffer, at, at + 1), at, at + 1, at + 3);
      };
      write(sink.headRoom);
      if (!isLast) return sink.end();
      const { socket } = response;
      await new Promise((resolve) => socket!.once("close", resolve));
      // Whoever gets the connection's numbers next gets nothing of this.
      const next = await connected();
      for (let i = 0; i < 3; i++) sent.push(write(0));
      next.socket.write("theirs");
      await next.client.until((text) => text.endsWith("theirs"));
      assertEquals(next.client.text, "theirs");
      await next.close();
      sink.release();
      done.resolve();
    };
    await withSink((response) => void serve(response), async (client) => {
      client.send(GET);
      await client.until((text) => text.endsWith("\r\n0\r\n\r\n"));
      client.send(GET);
      await client.until((text) => text.split("HTTP/1.1 200").length === 3);
      client.socket.destroy();
      await done.promise;
    });
    assertEquals(sent.length, 3);
  });
}

for (
  const [what, end] of [
    ["leaves", (client: RawClient) => client.socket.destroy()],
    ["resets", (client: RawClient) => client.socket.resetAndDestroy()],
  ] as const
) {
  Deno.test(`A client that ${what} in mid-stream is noticed though its descriptor is held twice`, async () => {
    const harness = await new FrontendHarness({ egress: "ffi" }).start();
    harness.join();
    const client = await RawClient.connect(harness.port);
    const before = openDescriptors();
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: a\n\n").flush();
    await client.until((text) => text.includes("data: a"));
    await until(() => openDescriptors() === before + 1, "sends are direct");
    stream.data("data: b\n\n").flush();
    await client.until((text) => text.includes("data: b"));
    end(client);
    await until(() => stream.cancelled !== null, "the stream is cancelled", 1_000);
    await until(() => openDescriptors() <= before - 2, "both ends and the duplicate are closed");
    await harness.close();
  });
}

Deno.test("A connection that the frontend closes is closed for the client too", async () => {
  const harness = await new FrontendHarness({ egress: "ffi" }).start();
  harness.join();
  const client = await RawClient.connect(harness.port);
  client.send(rawChat({}, "connection: close\r\n"));
  const stream = await harness.nextStream();
  stream.head().data("data: a\n\n").flush();
  await client.until((text) => text.includes("data: a"));
  stream.data("data: b\n\n").finish().flush();
  const text = await deadline(client.closed(), 1_000);
  assert(text.endsWith("\r\n0\r\n\r\n"), text);

  // And when the process ends in mid-stream.
  const other = await RawClient.connect(harness.port);
  other.send(rawChat());
  (await harness.nextStream()).head().data("data: c\n\n").flush();
  await other.until((text) => text.includes("data: c"));
  await harness.close();
  assert((await deadline(other.closed(), 1_000)).includes("[DONE]"));
});
