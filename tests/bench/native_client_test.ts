import { assert, assertEquals } from "@std/assert";
import { delay } from "@std/async";
import type { AddressInfo } from "node:net";
import { createServer } from "node:tls";
import { type LoadResult, runLoad } from "../../bench/support/load_client.ts";
import { buildNative } from "../../bench/support/native.ts";
import { ManagedProcess, waitUntilReady } from "../../bench/support/managed_process.ts";
import { freePort } from "../../bench/support/tools.ts";
import { selfSigned } from "../support/certificates.ts";
import { optionalTest } from "../support/optional.ts";

const native = await buildNative();
/** Without a C compiler there is nothing to test here. */
const ignore = native === null;
const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const encoder = new TextEncoder();

function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n`;
}

function response(...pieces: string[]): string {
  return `${HEAD}${pieces.map(chunk).join("")}0\r\n\r\n`;
}

/** Serves one connection: the n-th request is answered with the n-th list of pieces, each written by itself. */
async function serveOnce(
  answers: readonly (readonly string[])[],
): Promise<{ port: number; end: () => Promise<void> }> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const served = (async () => {
    using conn = await listener.accept();
    conn.setNoDelay(true);
    const buffer = new Uint8Array(4_096);
    for (const pieces of answers) {
      if (await conn.read(buffer) === null) return;
      for (const piece of pieces) {
        await conn.write(encoder.encode(piece));
        if (pieces.length > 1) await delay(1);
      }
    }
  })();
  await Promise.resolve();
  return { port: listener.addr.port, end: async () => (await served, listener.close()) };
}

async function load(answers: readonly (readonly string[])[], tokens: number): Promise<LoadResult> {
  const server = await serveOnce(answers);
  const result = await runLoad({
    client: native?.client ?? null,
    port: server.port,
    streams: 1,
    tokens,
    rounds: answers.length,
    deadlineSeconds: 20,
  });
  await server.end();
  return result;
}

Deno.test({
  name: "sse_client counts the same tokens wherever the response is cut",
  ignore,
  async fn() {
    const text = response("data: a\n\nda", "ta: b\r\n\r\n", ": comment\n\ndata:c\n\n", "data: [DONE]\n\n");
    const cuts = Array.from({ length: text.length - 1 }, (_, i) => [text.slice(0, i + 1), text.slice(i + 1)]);
    const result = await load([[text], ...cuts], 3);
    assertEquals([result.errors_total, result.first_error], [0, ""]);
    assertEquals([result.all_requests, result.tokens], [cuts.length + 1, 3 * (cuts.length + 1)]);
  },
});

Deno.test({
  name: "sse_client counts a response that is fed byte by byte",
  ignore,
  async fn() {
    const result = await load([[...response("data: a\n\n", "data: b\n\ndata: [DONE]\n\n")]], 2);
    assertEquals([result.errors_total, result.tokens, result.events], [0, 2, 2]);
  },
});

Deno.test({
  name: "sse_client names what is wrong with a response",
  ignore,
  async fn(t) {
    const good = response("data: a\n\n", "data: [DONE]\n\n");
    const table: [string, string, string][] = [
      ["status", "an error status", "HTTP/1.1 503 Unavailable\r\ncontent-length: 2\r\n\r\nno"],
      ["token_count", "no [DONE]", response("data: a\n\n")],
      ["token_count", "too few tokens", response("data: [DONE]\n\n")],
      ["token_count", "too many", response(...Array(4).fill("data: a\n\n"), "data: [DONE]\n\n")],
      [
        "error_event",
        "an error event",
        response("data: a\n\n", 'data: {"error":{}}\n\n', "data: [DONE]\n\n"),
      ],
      ["error_event", "a named error event", response("event: error\ndata: x\n\n", "data: [DONE]\n\n")],
      ["framing", "no chunk size", `${HEAD}zz\r\n`],
      ["framing", "a chunk that is longer than it says", `${HEAD}3\r\ndata: a\n\n\r\n`],
      ["framing", "bytes behind the end", `${good}x`],
      ["framing", "a body without a length", "HTTP/1.1 200 OK\r\n\r\n"],
      ["early_close", "an end in mid-chunk", good.slice(0, -12)],
    ];
    for (const [kind, name, text] of table) {
      await t.step(name, async () => {
        const result = await load([[text]], 1);
        assertEquals([result.errors_total, result.errors[kind]], [1, 1], JSON.stringify(result.errors));
      });
    }
  },
});

optionalTest(
  "openssl/ssl.h (libssl-dev)",
  (native?.tlsClient ?? null) !== null,
  "sse_client reads the same streams over TLS",
  async () => {
    const { cert, key } = await selfSigned();
    const answer = response("data: a\n\nda", "ta: b\n\n", "data: [DONE]\n\n");
    const server = createServer({ cert, key }, (socket) => {
      socket.on("error", () => {});
      socket.on("data", () => {
        // In two records: what came together is still one read.
        socket.write(answer.slice(0, 120));
        socket.write(answer.slice(120));
      });
    });
    const port = await new Promise<number>((resolve) => {
      server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
    });
    const load = {
      client: native!.tlsClient,
      tls: true,
      port,
      streams: 4,
      tokens: 2,
      rounds: 3,
      deadlineSeconds: 20,
    };
    const result = await runLoad(load);
    await new Promise<void>((resolve) => server.close(() => resolve()));
    assertEquals([result.errors_total, result.first_error, result.tokens], [0, "", 4 * 2 * 3]);
  },
);

Deno.test({
  name: "sse_source answers keep-alive requests with the tokens they ask for",
  ignore,
  async fn() {
    if (native === null) return;
    const port = freePort();
    let ready = false;
    const lines: string[] = [];
    const source = await ManagedProcess.spawn("source", [
      native.source,
      "--port",
      `${port}`,
      "--step-ms",
      "1",
    ], {
      onLine: (line) => (lines.push(line), ready = true),
    });
    await waitUntilReady([source], () => Promise.resolve(ready));
    const result = await runLoad({ client: native.client, port, streams: 8, tokens: 17, rounds: 3 });
    await source.stop();
    assertEquals([result.errors_total, result.first_error, result.tokens], [0, "", 8 * 17 * 3]);
    assertEquals(result.body_bytes, 8 * 3 * (17 * 170 + "data: [DONE]\n\n".length));
    const totals = JSON.parse(lines.at(-1) ?? "{}");
    assertEquals([totals.requests, totals.tokens], [24, 408]);
    assert(totals.cpu_us_per_token > 0);
  },
});
