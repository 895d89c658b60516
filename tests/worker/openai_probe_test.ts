import { assertEquals, assertMatch } from "@std/assert";
import { createLogger } from "../../src/observe/log.ts";
import { probeServer } from "../../src/worker/engines/openai_probe.ts";
import { ScriptedServer } from "../support/scripted_server.ts";

function probe(url: string, timeoutMs?: number) {
  const lines: string[] = [];
  const log = createLogger({ write: (line) => lines.push(line) });
  const { cancel, done } = probeServer({ url, apiKey: "sk-1", log, ...(timeoutMs ? { timeoutMs } : {}) });
  return { cancel, done, lines };
}

Deno.test("probeServer says nothing when the server answers with 200", async () => {
  let head = "";
  await using server = new ScriptedServer(async (connection) => {
    await connection.readRequest();
    head = connection.head;
    await connection.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
  });
  const { done, lines } = probe(`${server.url}/`);
  await done;
  assertEquals(lines, []);
  assertMatch(head, /^GET \/v1\/models HTTP\/1\.1\r\n/);
  assertMatch(head, /authorization: Bearer sk-1/i);
});

Deno.test("probeServer warns once when the server is not as it should be, and never fails", async (t) => {
  const answers: [string, string | null, RegExp][] = [
    ["another status", "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", /reason="status 404"/],
    ["an upgrade", "HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", /reason=/],
    ["no HTTP", "SSH-2.0-x\r\n", /reason=/],
    ["no answer in time", null, /reason="no answer in 50 ms"/],
  ];
  for (const [name, answer, reason] of answers) {
    await t.step(name, async () => {
      await using server = new ScriptedServer(async (connection) => {
        await connection.readRequest();
        if (answer !== null) await connection.write(answer);
        await connection.gone();
      });
      const { done, lines } = probe(server.url, answer === null ? 50 : undefined);
      await done;
      assertEquals(lines.length, 1);
      assertMatch(lines[0]!, /warn {2}engine_not_ready url=http:\/\/127\.0\.0\.1:\d+\/v1\/models /);
      assertMatch(lines[0]!, reason);
    });
  }
  await t.step("nobody listens", async () => {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    listener.close();
    const { done, lines } = probe(`http://127.0.0.1:${port}/v1`);
    await done;
    assertMatch(lines.join(""), /ECONNREFUSED/);
  });
  await t.step("the worker closes meanwhile", async () => {
    await using server = new ScriptedServer((connection) => connection.gone());
    const { cancel, done, lines } = probe(server.url);
    cancel();
    await done;
    assertEquals(lines, []);
  });
});
