import { assertEquals } from "@std/assert";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AppContext } from "../../src/frontend/app_context.ts";
import { KeyGuard } from "../../src/frontend/keys/key_guard.ts";
import type { KeyLimiter } from "../../src/frontend/keys/key_limiter.ts";
import { GenerateRoute } from "../../src/frontend/generate_route.ts";
import { DEFAULT_FRONTEND_OPTIONS } from "../../src/frontend/options.ts";
import { silentLogger } from "../../src/observe/log.ts";
import { chatBody, parseRaw, RawClient, withFrontend } from "../support/frontend_harness.ts";

const BODY = JSON.stringify(chatBody({ stream: true }));

/** One request, with any request line and host. */
const raw = (line: string, host: string | null, key = "secret") =>
  `${line} HTTP/1.1\r\n${host === null ? "" : `host: ${host}\r\n`}authorization: Bearer ${key}\r\n` +
  `content-type: application/json\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`;

/** Of one meaning, in forms that take both ways through the server. */
const SPELLINGS: readonly [line: string, host: string][] = [
  ["POST /v1/chat/completions", "localhost"],
  ["POST /v1/chat/completions", "10.0.0.1:8000"],
  ["POST /v1/chat/completions", "[::1]:8000"],
  ["POST /v1/chat/completions?api-version=1", "localhost"],
  ["POST http://localhost/v1/chat/completions", "localhost"],
  ["POST /v1/completions/../chat/completions", "localhost"],
];

Deno.test("GenerateRoute answers every spelling of a request alike, past the router or through it", async (t) => {
  for (const [line, host] of SPELLINGS) {
    await t.step(`${line}, host ${host}`, () =>
      withFrontend({ apiKeys: ["secret"] }, async (harness) => {
        const client = await RawClient.connect(harness.port);
        client.send(raw(line, host));
        const stream = await harness.nextStream();
        stream.head().data("data: [DONE]\n\n").finish().flush();
        const text = await client.until((text) => text.endsWith("0\r\n\r\n"));
        assertEquals([parseRaw(text)!.status, parseRaw(text)!.body], [200, "data: [DONE]\n\n"]);
        assertEquals(harness.outcomes(), { ok: 1 });
        client.text = "";
        client.send(raw(line, host, "wrong"));
        assertEquals(parseRaw(await client.until((text) => parseRaw(text) !== null))!.status, 401);
        await client.close();
      }));
  }
});

Deno.test("GenerateRoute leaves what is not for it to the router", async (t) => {
  const cases: [line: string, host: string | null, status: number][] = [
    ["PUT /v1/chat/completions", "localhost", 405],
    ["POST /v1/chat/completions/", "localhost", 404],
    ["POST /v1/chat/completion", "localhost", 404],
    ["POST /v1/chat/completions", "a b", 400],
    ["POST /v1/chat/completions", "localhost:99999", 400],
  ];
  for (const [line, host, status] of cases) {
    await t.step(`${line}, host ${host}`, () =>
      withFrontend({ apiKeys: ["secret"] }, async (harness) => {
        const client = await RawClient.connect(harness.port);
        client.send(raw(line, host));
        assertEquals(parseRaw(await client.until((text) => parseRaw(text) !== null))!.status, status);
        client.socket.destroy();
        await client.closed();
      }));
  }
});

Deno.test("GenerateRoute refuses a client that writes its whole body before it reads, and takes its next request", async (t) => {
  const long = "x".repeat(4_000_000);
  for (const host of ["localhost", "[::1]"]) {
    await t.step(
      host === "localhost" ? "past the router" : "through the router",
      () =>
        withFrontend({ apiKeys: ["secret"] }, async (harness) => {
          const client = await RawClient.connect(harness.port);
          client.socket.pause();
          client.send(
            `POST /v1/chat/completions HTTP/1.1\r\nhost: ${host}\r\ncontent-length: ${long.length}\r\n\r\n`,
          );
          await new Promise<void>((resolve, reject) => {
            client.socket.write(long, (error) => error ? reject(error) : resolve());
          });
          client.socket.resume();
          const answer = (text: string) => parseRaw(text) !== null;
          assertEquals(parseRaw(await client.until(answer))!.status, 401);
          client.text = "";
          client.send(raw("POST /v1/chat/completions", host));
          const stream = await harness.nextStream();
          stream.head().data("data: [DONE]\n\n").finish().flush();
          await client.until((text) => text.endsWith("0\r\n\r\n"));
          await client.close();
        }),
    );
  }
});

/** A route that notes whom it accepted for; the context's other members are not its. */
function route(accept: (endpoint: string) => void) {
  const context = { accept, log: silentLogger, onUnauthorized() {}, options: DEFAULT_FRONTEND_OPTIONS };
  return new GenerateRoute(
    context as unknown as AppContext,
    new KeyGuard({ isOpen: true, keys: [] }),
    {} as KeyLimiter,
  );
}

Deno.test("GenerateRoute.answerPlain takes the usual form of a request and no other", () => {
  const cases: [method: string, url: string, host: string | undefined, taken: string | null][] = [
    ["POST", "/v1/chat/completions", "localhost", "chat_completions"],
    ["POST", "/v1/completions", "10.0.0.1:8000", "completions"],
    ["POST", "/v1/chat/completions", "api.example.com:59999", "chat_completions"],
    ["POST", "/v1/chat/completions", "[::1]:8000", null],
    ["POST", "/v1/chat/completions", "localhost:65536", null],
    ["POST", "/v1/chat/completions", "a b", null],
    ["POST", "/v1/chat/completions", undefined, null],
    ["POST", "/v1/chat/completions?a=b", "localhost", null],
    ["PUT", "/v1/chat/completions", "localhost", null],
    ["POST", "/v1/models", "localhost", null],
  ];
  for (const [method, url, host, taken] of cases) {
    const accepted: string[] = [];
    const request = { method, url, headers: { host } } as IncomingMessage;
    const isTaken = route((endpoint) => accepted.push(endpoint)).answerPlain(request, {} as ServerResponse);
    assertEquals(
      [isTaken, accepted],
      [taken !== null, taken === null ? [] : [taken]],
      `${method} ${url} ${host}`,
    );
  }
});

Deno.test("GenerateRoute answers 500 when taking a request fails, and the server lives", () => {
  let sent: [number, string] | null = null;
  const response = {
    destroyed: false,
    headersSent: false,
    writeHead: (status: number) => sent = [status, ""],
    end: (body: Uint8Array) => sent![1] = new TextDecoder().decode(body),
  } as unknown as ServerResponse;
  const request = {
    method: "POST",
    url: "/v1/completions",
    headers: { host: "localhost" },
  } as IncomingMessage;
  const failing = route(() => {
    throw new Error("no");
  });
  assertEquals(failing.answerPlain(request, response), true);
  assertEquals(sent![0], 500);
  assertEquals(JSON.parse(sent![1]).error.type, "internal_server_error");
});
