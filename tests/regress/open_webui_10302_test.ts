/**
 * open-webui/open-webui#10302 (kin: #17626, kubernetes-sigs/inference-perf#283): a line reader with a fixed limit met
 * one data line holding an image and the chat stalled. Fails when a line up to the limit is not relayed byte for byte,
 * when a longer one does not end that stream with an outcome, when memory follows it, or when time grows with its square.
 */
import { assert, assertEquals } from "@std/assert";
import { systemClock } from "../../src/clock.ts";
import { OpenAiEngine } from "../../src/worker/engines/openai.ts";
import { StreamObserver } from "../../src/worker/engines/stream_observer.ts";
import { chatRequest, RecordingOutput } from "../support/recording_output.ts";
import { ScriptedServer } from "../support/scripted_server.ts";

const LIMIT = 1_048_576;
const END = 'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
const encoder = new TextEncoder();

/** A data line of exactly this many bytes. */
function lineOf(bytes: number): string {
  return `data: "${"x".repeat(bytes - 8)}"`;
}

Deno.test("OpenAiEngine relays long lines up to its limit and cuts that stream over it", async (t) => {
  const cases: [number, boolean][] = [
    [131_071, true],
    [131_072, true],
    [131_073, true],
    [LIMIT - 1, true],
    [LIMIT, true],
    [LIMIT + 1, false],
  ];
  for (const [size, fits] of cases) {
    await t.step(`${size} bytes`, async () => {
      const bytes = encoder.encode(`${lineOf(size)}\n\n${END}`);
      await using server = new ScriptedServer(async (connection) => {
        await connection.readRequest();
        await connection.start();
        for (let at = 0; at < bytes.length; at += 16_384) {
          await connection.chunk(bytes.slice(at, at + 16_384));
        }
        await connection.finish();
      });
      const engine = new OpenAiEngine({ clock: systemClock, url: server.url, maxEventBytes: LIMIT });
      const output = new RecordingOutput();
      engine.run(chatRequest(), output);
      const summary = await output.ended;
      assertEquals(summary.outcome, fits ? "ok" : "truncated");
      if (fits) assertEquals(output.bytes(), bytes);
      else assert(summary.detail?.includes(String(LIMIT)));
      await engine.close();
    });
  }
});

Deno.test("OpenAiEngine ends a stream whose line never ends, close to its limit, and closes the connection", async () => {
  const gone = Promise.withResolvers<void>();
  await using server = new ScriptedServer(async (connection) => {
    await connection.readRequest();
    await connection.start();
    const piece = encoder.encode("x".repeat(1_024));
    try {
      for (let sent = 0; sent < 64 * LIMIT; sent += piece.length) await connection.chunk(piece);
    } finally {
      gone.resolve();
    }
  });
  const engine = new OpenAiEngine({ clock: systemClock, url: server.url, maxEventBytes: LIMIT });
  const output = new RecordingOutput();
  engine.run(chatRequest(), output);
  assertEquals((await output.ended).outcome, "truncated");
  assert(output.bytes().length <= 2 * LIMIT);
  await gone.promise;
  await engine.close();
});

Deno.test("StreamObserver moves each byte of a long line a few times, however long the line and small the pieces", () => {
  const piece = encoder.encode("x".repeat(1_024));
  for (const pieces of [1_024, 16_384]) {
    const moved = countMovedBytes(() => {
      const observer = new StreamObserver(64 * LIMIT, "truncated");
      for (let i = 0; i < pieces; i++) observer.feed(piece);
    });
    // Once into the line and, as the line's memory doubles, once more on average; quadratic is half of `pieces`.
    assert(moved >= pieces * piece.length, "the count sees the copies");
    assert(moved < 4 * pieces * piece.length, `${moved} bytes moved for ${pieces * piece.length}`);
  }
});

/** Bytes that typed arrays were told to copy while `run` ran. */
function countMovedBytes(run: () => void): number {
  const { set } = Uint8Array.prototype;
  let moved = 0;
  Uint8Array.prototype.set = function (source: ArrayLike<number>, offset?: number): void {
    moved += source.length;
    set.call(this, source, offset);
  };
  try {
    run();
  } finally {
    Uint8Array.prototype.set = set;
  }
  return moved;
}
