import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { CERTIFICATE, parseRaw, rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

const EGRESSES = CERTIFICATE === null
  ? ["auto", "ffi", "socket", "portable"] as const
  : ["auto", "socket", "portable"] as const; // nothing goes past an encrypted socket

for (const egress of EGRESSES) {
  Deno.test(`Relay sends every item byte for byte and ends the response, egress ${egress}`, () =>
    withFrontend({ egress }, async (harness) => {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat());
      const stream = await harness.nextStream();
      assertEquals(client.text, "");
      stream.head().data("data: 1\n\n").flush();
      await client.until((text) => text.includes("data: 1\n\n"));
      for (let i = 2; i < 40; i++) {
        stream.data(`data: ${i}\n\n`).flush();
        if (i % 3 === 0) await client.until((text) => text.includes(`data: ${i}\n\n`));
      }
      stream.data("data: [DONE]\n\n").finish().flush();
      const text = await client.until((text) => text.endsWith("0\r\n\r\n"));
      const response = parseRaw(text)!;
      let expected = "";
      for (let i = 1; i < 40; i++) expected += `data: ${i}\n\n`;
      assertEquals(response.body, expected + "data: [DONE]\n\n");
      assertEquals(response.status, 200);
      assertEquals(response.rest, "");
      for (
        const line of [
          "content-type: text/event-stream",
          "cache-control: no-cache",
          "x-accel-buffering: no",
          "connection: keep-alive",
        ]
      ) assertStringIncludes(response.head.toLowerCase(), line);
      assertEquals(harness.outcomes(), { ok: 1 });
      await client.close();
      await until(() => harness.node.openRequests === 0, "no open request");
    }));

  Deno.test(`Relay gathers the items of one read into one chunk, egress ${egress}`, () =>
    withFrontend({ egress }, async (harness) => {
      const first = await RawClient.connect(harness.port);
      const second = await RawClient.connect(harness.port);
      first.send(rawChat());
      const a = await harness.nextStream();
      second.send(rawChat());
      const b = await harness.nextStream();
      a.head().data("data: a\n\n");
      b.head().data("data: b\n\n").flush();
      await first.until((text) => text.includes("data: a\n\n"));
      await second.until((text) => text.includes("data: b\n\n"));
      for (let i = 0; i < 20; i++) {
        a.data(`data: a${i}\n\n`);
        b.data(`data: b${i}${"x".repeat(i)}\n\n`);
      }
      a.finish();
      b.finish().flush();
      const responses = [first, second].map(async (client, index) => {
        const response = parseRaw(await client.until((text) => text.endsWith("0\r\n\r\n")))!;
        const name = "ab"[index]!;
        let expected = `data: ${name}\n\n`;
        for (let i = 0; i < 20; i++) expected += `data: ${name}${i}${index === 1 ? "x".repeat(i) : ""}\n\n`;
        assertEquals(response.body, expected);
        assertEquals(response.chunks.length, 3);
        await client.close();
      });
      await Promise.all(responses);
    }));

  Deno.test(`Relay carries items of any size between others, egress ${egress}`, () =>
    withFrontend({ egress }, async (harness) => {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat());
      const stream = await harness.nextStream();
      stream.head();
      let expected = "";
      const sizes = [1, 15, 16, 255, 256, 4_095, 8_191, 8_192, 8_193, 32_767, 32_768, 100_000, 1_048_576, 3];
      for (const size of sizes) {
        const item = String.fromCharCode(97 + size % 26).repeat(size);
        expected += item;
        stream.data(item).data("|");
        expected += "|";
        if (size % 2 === 0) stream.flush();
      }
      stream.finish().flush();
      const response = parseRaw(await client.until((text) => text.endsWith("0\r\n\r\n")))!;
      assertEquals(response.body, expected);
      await client.close();
    }));

  Deno.test(`Relay pauses the stream of a client that does not read and goes on when it does, egress ${egress}`, () =>
    withFrontend({ egress }, async (harness) => {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat());
      const stream = await harness.nextStream();
      stream.head().data("data: 0\n\n").flush();
      await client.until((text) => text.includes("data: 0\n\n"));
      client.socket.pause();
      const item = new Uint8Array(64 * 1024).fill(0x78);
      let sent = 0;
      for (; sent < 2_000 && stream.waiting < 20; sent++) {
        stream.data(item).flush();
        if (sent % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
      }
      assert(stream.isPaused, "the stream was never paused");
      assertEquals(harness.node.stats.stalls > 0, true);
      const taken = stream.delivered;
      stream.data(item).flush();
      assertEquals(stream.delivered, taken);
      stream.finish().flush();
      client.socket.resume();
      const text = await client.until((text) => text.endsWith("0\r\n\r\n"));
      assertEquals(parseRaw(text)!.body.length, "data: 0\n\n".length + (sent + 1) * item.length);
      assertEquals(harness.outcomes(), { ok: 1 });
      await client.close();
    }));

  Deno.test(`Relay keeps what a slow client has still to get apart from what others get, egress ${egress}`, () =>
    withFrontend({ egress }, async (harness) => {
      const clients = [await RawClient.connect(harness.port), await RawClient.connect(harness.port)];
      const streams = [];
      for (const client of clients) {
        client.send(rawChat());
        streams.push(await harness.nextStream());
      }
      const [slow, fast] = streams as [(typeof streams)[number], (typeof streams)[number]];
      slow.head().flush();
      fast.head().flush();
      clients[0]!.socket.pause();
      const expected = ["", ""];
      let count = 0;
      // Items that share their memory with those of the others, in the same flush and in those that follow.
      for (; count < 20_000 && slow.waiting < 3; count++) {
        [slow, fast].forEach((stream, index) => {
          const item = `data: ${"sf"[index]}${count} `.padEnd(3_000 + count % 500, "sf"[index]) + "\n\n";
          expected[index] += item;
          stream.data(item);
        });
        fast.flush();
        if (count % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
      }
      assert(slow.isPaused, "the slow client's stream was never paused");
      slow.finish();
      fast.finish().flush();
      clients[0]!.socket.resume();
      for (const [index, client] of clients.entries()) {
        const response = parseRaw(await client.until((text) => text.endsWith("0\r\n\r\n")))!;
        assert(response.body === expected[index], `client ${index} got other bytes than were meant for it`);
        await client.close();
      }
    }));

  Deno.test(`Relay leaves the connection fit for the next request, egress ${egress}`, () =>
    withFrontend({ egress }, async (harness) => {
      const client = await RawClient.connect(harness.port);
      for (let round = 0; round < 5; round++) {
        client.text = "";
        client.send(rawChat({ user: `${round}` }));
        const stream = await harness.nextStream();
        stream.head().data(`data: a${round}\n\n`).flush();
        await client.until((text) => text.includes(`a${round}`));
        for (let i = 0; i < round * 3; i++) stream.data(`data: ${round}-${i}\n\n`).flush();
        stream.finish().flush();
        const response = parseRaw(await client.until((text) => text.endsWith("\r\n0\r\n\r\n")))!;
        assertEquals(response.rest, "");
        assertEquals(response.body.split("\n\n").length, round * 3 + 2);
      }
      assertEquals(harness.outcomes(), { ok: 5 });
      await client.close();
    }));

  Deno.test(`Relay answers pipelined requests in their order, each with its own bytes, egress ${egress}`, () =>
    withFrontend({ egress }, async (harness) => {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat() + rawChat() + rawChat({ model: "nobody" }));
      const first = await harness.nextStream();
      const second = await harness.nextStream();
      // The second one is ready first and must wait.
      second.head().data("data: second\n\n").flush();
      for (let i = 0; i < 50; i++) second.data(`data: s${i}\n\n`).flush();
      second.finish().flush();
      await new Promise((resolve) => setTimeout(resolve, 20));
      assertEquals(client.text, "");
      first.head().data("data: first\n\n").flush();
      await client.until((text) => text.includes("first"));
      first.data("data: more\n\n").finish().flush();
      const text = await client.until((text) => text.includes("model_not_found"));
      const one = parseRaw(text)!;
      const two = parseRaw(one.rest)!;
      const three = parseRaw(two.rest)!;
      assertEquals(one.body, "data: first\n\ndata: more\n\n");
      assertEquals(two.body.startsWith("data: second\n\ndata: s0\n\n"), true);
      assertEquals(two.body.endsWith("data: s49\n\n"), true);
      assertEquals(three.status, 404);
      assertEquals(three.rest, "");
      await client.close();
    }));

  Deno.test(`Relay serves a client of HTTP/1.0 without chunks, egress ${egress}`, () =>
    withFrontend({ egress }, async (harness) => {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat().replace("HTTP/1.1", "HTTP/1.0"));
      const stream = await harness.nextStream();
      stream.head().data("data: 1\n\n").flush();
      await client.until((text) => text.includes("data: 1\n\n"));
      stream.data("data: 2\n\n").flush().data("data: [DONE]\n\n").finish().flush();
      const text = await client.closed();
      assertEquals(text.slice(text.indexOf("\r\n\r\n") + 4), "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n");
    }));
}

Deno.test("Relay keeps little of a stream whose client does not read", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 0\n\n").flush();
    await client.until((text) => text.includes("data: 0\n\n"));
    client.socket.pause();
    // Small items, one per read, until the kernel takes no more.
    const item = new Uint8Array(1_000).fill(0x78);
    for (let i = 0; i < 30_000 && !stream.isPaused; i++) {
      stream.data(item).flush();
      if (i % 500 === 0) await new Promise((resolve) => setTimeout(resolve, 0));
    }
    assert(stream.isPaused, "the stream was never paused");
    assertEquals(harness.node.stats.stalls, 1);
    await client.close();
    await until(() => stream.cancelled !== null, "the worker is told");
    assertEquals(harness.outcomes(), { cancelled: 1 });
  }));
