/**
 * denoland/deno#30298, cases (b) and (c): a source that pushes into a response without asking whether the client takes
 * anything queued 268 MB in a second. Fails when what is kept for a client that does not read follows what its worker
 * makes, or when one such client holds up another.
 */
import { assert, assertEquals } from "@std/assert";
import { rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

/** What the kernel's buffers of one loopback connection take, at most, plus what the relay may keep. */
const ROOM_BYTES = 16 * 1024 * 1024;

for (const egress of ["socket", "portable"] as const) {
  Deno.test(`Frontend stops taking from a worker whose client reads nothing, egress ${egress}`, () =>
    withFrontend({ egress }, async (harness) => {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat());
      const stream = await harness.nextStream();
      stream.head().data("data: 0\n\n").flush();
      await client.until((text) => text.includes("data: 0"));
      client.socket.pause();
      const item = new Uint8Array(16 * 1024).fill(0x78);
      let made = 0;
      while (made < 256 * 1024 * 1024) {
        stream.data(item).flush();
        made += item.length;
        if (stream.isPaused && made > 64 * 1024 * 1024) break;
        if (made % (1024 * 1024) === 0) await new Promise((resolve) => setTimeout(resolve, 0));
      }
      assert(stream.isPaused, "the stream was never paused");
      assert(stream.delivered < ROOM_BYTES, `${stream.delivered} bytes were taken`);
      await client.close();
      await until(() => harness.node.openRequests === 0, "no open request");
    }));
}

Deno.test("Frontend serves a client promptly beside 200 that stopped to read behind the first event", () =>
  withFrontend({}, async (harness) => {
    const stalled: RawClient[] = [];
    const streams = [];
    for (let i = 0; i < 200; i++) {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat());
      const stream = await harness.nextStream();
      stream.head().data("data: 0\n\n").flush();
      await client.until((text) => text.includes("data: 0"));
      client.socket.pause();
      stalled.push(client);
      streams.push(stream);
    }
    const reader = await RawClient.connect(harness.port);
    reader.send(rawChat());
    const read = await harness.nextStream();
    read.head().data("data: 0\n\n").flush();
    const item = new Uint8Array(32 * 1024).fill(0x78);
    let worst = 0;
    for (let step = 1; step <= 60; step++) {
      for (const stream of streams) if (!stream.isPaused) stream.data(item);
      const before = performance.now();
      read.data(`data: ${step}\n\n`).flush();
      await reader.until((text) => text.includes(`data: ${step}\n\n`));
      worst = Math.max(worst, performance.now() - before);
    }
    assert(worst < 250, `the reader waited for ${worst} ms`);
    for (const stream of streams) assert(stream.delivered < ROOM_BYTES);
    for (const client of [...stalled, reader]) await client.close();
    await until(() => harness.node.openRequests === 0, "no open request");
    assertEquals(harness.plane.live, 0);
  }));
