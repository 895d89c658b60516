import { assert, assertEquals, assertThrows } from "@std/assert";
import { ServerResponse } from "node:http";
import { type Flushable, FlushList } from "../../src/frontend/flush_list.ts";
import { rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import type { ScriptedStream } from "../support/scripted_plane.ts";
import { until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

Deno.test("FlushList flushes those that end behind the others, whoever throws, and ends what the egress began", () => {
  const list = new FlushList(new VirtualClock());
  const said: string[] = [];
  list.use({
    ...list.egress,
    beginFlush: () => said.push("begin"),
    endFlush: () => said.push("end"),
  });
  const stream = (name: string, fails = false, isEnding = false): Flushable => ({
    isEnding,
    prefetch: () => 0,
    flush() {
      said.push(name);
      if (fails) throw new Error("no");
    },
    writeFailed: (caught) => said.push(`${name} failed: ${(caught as Error).message}`),
  });
  for (const one of [stream("a"), stream("b", true), stream("c")]) list.touch(one);
  list.flush();
  assertEquals(said.splice(0), ["begin", "a", "b", "b failed: no", "c", "end"]);

  // Streams that end go last, and in their order.
  for (
    const one of [
      stream("a", false, true),
      stream("b"),
      stream("c", true, true),
      stream("d", false, true),
      stream("e"),
    ]
  ) list.touch(one);
  list.flush();
  assertEquals(said.splice(0), ["begin", "b", "e", "a", "c", "c failed: no", "d", "end"]);
  list.touch(stream("f"));
  list.flush();
  assertEquals(said, ["begin", "f", "end"]);
});

Deno.test("FlushList that is flushed from within a flush loses nobody", () => {
  const list = new FlushList(new VirtualClock());
  const said: string[] = [];
  const stream = (name: string, isEnding = false, inside = () => {}): Flushable => ({
    isEnding,
    prefetch: () => 0,
    flush() {
      said.push(name);
      inside();
    },
    writeFailed() {},
  });
  const again = () => {
    list.touch(stream("b", true));
    list.touch(stream("c"));
    list.flush();
  };
  for (const one of [stream("x", true), stream("y", true), stream("a", false, again), stream("z")]) {
    list.touch(one);
  }
  list.flush();
  assertEquals(said, ["a", "z", "x", "y", "c", "b"]);
});

for (const at of ["beginFlush", "endFlush"] as const) {
  Deno.test(`FlushList flushes on after an egress whose ${at} threw, and ends those that had no turn`, () => {
    const list = new FlushList(new VirtualClock());
    let isBroken = true;
    const said: string[] = [];
    list.use({
      ...list.egress,
      [at]() {
        if (isBroken) throw new Error(`no ${at}`);
      },
    });
    const stream = (name: string): Flushable => ({
      isEnding: false,
      prefetch: () => 0,
      flush: () => said.push(name),
      writeFailed: (caught) => said.push(`${name} failed: ${(caught as Error).message}`),
    });
    list.touch(stream("a"));
    list.touch(stream("b"));
    assertThrows(() => list.flush(), Error, `no ${at}`);
    assertEquals(
      said.splice(0),
      at === "endFlush" ? ["a", "b"] : ["a failed: no beginFlush", "b failed: no beginFlush"],
    );
    isBroken = false;
    list.touch(stream("c"));
    list.flush();
    assertEquals(said, ["c"]);
  });
}

/** What a relay does when its write throws: while items come, at the end of a read, as it ends, as it is broken off. */
const THROWING: readonly [when: string, act: (stream: ScriptedStream) => void][] = [
  ["within a read", (stream) => stream.data("data: ".padEnd(9_000, "x"))],
  ["at the end of a read", (stream) => stream.data("data: 2\n\n").flush()],
  ["with the last chunk", (stream) => stream.data("data: [DONE]\n\n").finish().flush()],
  ["with an error event", (stream) => stream.drop()],
];

for (const [when, act] of THROWING) {
  Deno.test(`Relay whose write throws ${when} is cut off and counted once`, () =>
    withFrontend({ egress: "portable" }, async (harness) => {
      const { write } = ServerResponse.prototype;
      const client = await RawClient.connect(harness.port);
      client.send(rawChat());
      const stream = await harness.nextStream();
      stream.head().data("data: 1\n\n").flush();
      await client.until((text) => text.includes("data: 1"));
      ServerResponse.prototype.write = () => {
        throw new Error("out of order");
      };
      try {
        act(stream);
      } finally {
        ServerResponse.prototype.write = write;
      }
      await client.closed();
      assertEquals(harness.outcomes(), { internal_error: 1 });
      assert(stream.hasEnded || stream.cancelled !== null);
      await until(() => harness.node.openRequests === 0, "no open request");
    }));
}

Deno.test("Relay whose first write throws is cut off and counted once; the next stream is well", () =>
  withFrontend({ egress: "portable" }, async (harness) => {
    const { write } = ServerResponse.prototype;
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    ServerResponse.prototype.write = () => {
      throw new Error("out of order");
    };
    try {
      stream.head().data("data: 1\n\n").flush();
    } finally {
      ServerResponse.prototype.write = write;
    }
    await client.closed();
    assertEquals([harness.outcomes(), stream.cancelled !== null], [{ internal_error: 1 }, true]);

    const next = await RawClient.connect(harness.port);
    next.send(rawChat());
    const second = await harness.nextStream();
    second.head().data("data: [DONE]\n\n").finish().flush();
    await next.until((text) => text.endsWith("0\r\n\r\n"));
    assertEquals(harness.outcomes(), { internal_error: 1, ok: 1 });
    next.socket.destroy();
    await next.closed();
  }));

Deno.test("Relay that ends leaves behind one that goes on, whichever was touched first", () =>
  withFrontend({ egress: "portable" }, async (harness) => {
    const clients = [await RawClient.connect(harness.port), await RawClient.connect(harness.port)];
    const streams = [];
    for (const client of clients) {
      client.send(rawChat());
      streams.push(await harness.nextStream());
    }
    const written: string[] = [];
    const { write } = ServerResponse.prototype;
    ServerResponse.prototype.write = function (this: ServerResponse, ...args: unknown[]) {
      written.push(new TextDecoder().decode(args[0] as Uint8Array).trim());
      return Reflect.apply(write, this, args) as boolean;
    } as typeof write;
    try {
      streams[0]!.head().data("data: ends\n\ndata: [DONE]\n\n").finish();
      streams[1]!.head().data("data: goes on\n\n").flush();
    } finally {
      ServerResponse.prototype.write = write;
    }
    assertEquals(written, ["data: goes on", "data: ends\n\ndata: [DONE]"]);
    streams[1]!.data("data: [DONE]\n\n").finish().flush();
    for (const client of clients) await client.until((text) => text.endsWith("0\r\n\r\n"));
    for (const client of clients) await client.close();
  }));
