import { assertEquals, assertLess } from "@std/assert";
import { EventEmitter } from "node:events";
import type { IncomingMessage } from "node:http";
import { BodyBudget, readBody } from "../../src/frontend/body.ts";
import { GatheredBody } from "../../src/frontend/gathered_body.ts";
import { MAX_OPEN_PER_CONNECTION } from "../../src/frontend/pipeline_limit.ts";
import { createLogger } from "../../src/observe/log.ts";
import { FrontendHarness, rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

class FakeRequest extends EventEmitter {
  readonly headers: Record<string, string> = {};
  isDestroyed = false;
  resume(): void {}
  destroy(): void {
    this.isDestroyed = true;
  }
}

Deno.test("readBody keeps none of the pieces that a body comes in", () => {
  const request = new FakeRequest();
  const budget = new BodyBudget(1_000);
  let got: string | null = null;
  readBody(request as unknown as IncomingMessage, 100, budget, (_error, body) => {
    got = new TextDecoder().decode(body);
  });
  // One buffer behind all pieces, as a socket's: a piece that is kept, not copied, shows the last one's bytes.
  const piece = new Uint8Array(1);
  for (const byte of new TextEncoder().encode("hello, world")) {
    piece[0] = byte;
    request.emit("data", piece);
  }
  assertEquals(budget.held, 12);
  request.emit("end");
  assertEquals(got, "hello, world");
  assertEquals(budget.held, 0);
});

Deno.test("readBody gives its bytes back whether a body is too large, too much for all, or cut off", () => {
  const cases = [
    { max: 4, all: 1_000, last: () => {}, code: "too_large" },
    { max: 100, all: 4, last: () => {}, code: "overloaded" },
    { max: 100, all: 1_000, last: (request: FakeRequest) => request.emit("close"), code: "cancelled" },
  ];
  for (const { max, all, last, code } of cases) {
    const request = new FakeRequest();
    const budget = new BodyBudget(all);
    const codes: (string | undefined)[] = [];
    readBody(request as unknown as IncomingMessage, max, budget, (error) => codes.push(error?.code));
    for (let i = 0; i < 5; i++) request.emit("data", new Uint8Array([0x20]));
    last(request);
    assertEquals([codes, budget.held], [[code], 0]);
  }
});

Deno.test("readBody gives up a body in ever smaller pieces, and takes one that merely trickles", () => {
  for (
    const { bytes, pieces, isTaken } of [
      { bytes: 1, pieces: 1_000, isTaken: true },
      { bytes: 1, pieces: 2_000, isTaken: false },
      { bytes: 20, pieces: 20_000, isTaken: true },
    ]
  ) {
    const request = new FakeRequest();
    const budget = new BodyBudget(1_000_000);
    const codes: (string | undefined)[] = [];
    readBody(request as unknown as IncomingMessage, 1_000_000, budget, (error) => codes.push(error?.code));
    for (let i = 0; i < pieces; i++) request.emit("data", new Uint8Array(bytes));
    if (isTaken) request.emit("end");
    assertEquals([codes, request.isDestroyed], isTaken ? [[undefined], false] : [["invalid_request"], true]);
    assertEquals(budget.held, 0);
  }
});

Deno.test("GatheredBody takes up to its bound, in pieces of any size, and costs what it holds", () => {
  for (const size of [1, 7, 511, 512, 513, 4_096]) {
    const body = new GatheredBody(4_096);
    const piece = new Uint8Array(size).fill(0x61);
    let pushed = 0;
    while (body.push(piece, 0, size)) pushed += size;
    assertEquals(pushed, 4_096 - 4_096 % size);
    assertEquals(body.join(), new Uint8Array(pushed).fill(0x61));
    assertLess(body.join().buffer.byteLength, 4_097);
    assertEquals(body.push(new Uint8Array(4_096 - pushed), 0, 4_096 - pushed), true);
  }
});

Deno.test("Frontend closes a connection that sends further ahead than any client does", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat().repeat(4 * MAX_OPEN_PER_CONNECTION));
    await client.closed();
    await until(() => harness.node.openRequests === 0, "no open request");
    // Some were with workers by then, and all of those have been given up; nobody asked for more than may be open.
    assertLess(harness.plane.streams.length, MAX_OPEN_PER_CONNECTION + 1);
    assertEquals(harness.plane.streams.every((stream) => stream.cancelled !== null), true);
  }));

Deno.test("Frontend answers requests sent ahead, and more of them on the same connection", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    for (let round = 1; round <= 3; round++) {
      client.send(rawChat().repeat(MAX_OPEN_PER_CONNECTION));
      for (let i = 0; i < MAX_OPEN_PER_CONNECTION; i++) {
        const stream = await harness.nextStream();
        stream.head().data("data: [DONE]\n\n").finish().flush();
      }
      const answers = round * MAX_OPEN_PER_CONNECTION;
      await client.until((text) => text.split("data: [DONE]").length > answers);
      await until(() => harness.node.openRequests === 0, "no open request");
    }
    assertEquals(harness.outcomes(), { ok: 3 * MAX_OPEN_PER_CONNECTION });
    await client.close();
  }));

Deno.test("Call warns of a request that failed, and not of one that the client got wrong", async () => {
  const lines: string[] = [];
  const log = createLogger({ level: "warn", format: "text", write: (line: string) => void lines.push(line) });
  const harness = await new FrontendHarness({}, { log }).start();
  harness.join();
  try {
    for (let i = 0; i < 20; i++) {
      const answer = await harness.post({ model: "none" });
      assertEquals(answer.status, 404);
      await answer.body?.cancel();
    }
    const answer = harness.post({ stream: false });
    const stream = await harness.nextStream();
    stream.head(422, "application/json").data("{}").summary("upstream_error").end().flush();
    assertEquals((await answer).status, 422);
    await (await answer).body?.cancel();
    assertEquals(lines, []);
    const failed = harness.post();
    (await harness.nextStream()).end({ kind: "timeout", reason: "no sender came" });
    assertEquals((await failed).status, 504);
    await (await failed).body?.cancel();
    assertEquals(lines.length, 1);
  } finally {
    await harness.close();
  }
});
