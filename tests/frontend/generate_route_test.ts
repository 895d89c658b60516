import { assertEquals } from "@std/assert";
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
