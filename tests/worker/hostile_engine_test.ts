import { assertEquals, assertLess } from "@std/assert";
import { systemClock } from "../../src/clock.ts";
import { OpenAiEngine } from "../../src/worker/engines/openai.ts";
import { chatRequest, RecordingOutput } from "../support/recording_output.ts";
import { type ScriptedConnection, ScriptedServer } from "../support/scripted_server.ts";

const GOOD = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

async function answer(script: (connection: ScriptedConnection) => Promise<void>): Promise<RecordingOutput> {
  await using server = new ScriptedServer(async (connection) => {
    await connection.readRequest();
    await script(connection).catch(() => {});
    await connection.gone();
  });
  const engine = new OpenAiEngine({ clock: systemClock, url: server.url, headersTimeoutMs: 5_000 });
  try {
    const output = new RecordingOutput();
    engine.run(chatRequest({ stream: false }), output);
    await output.ended;
    return output;
  } finally {
    await engine.close();
  }
}

Deno.test("OpenAiEngine gives up a server that sends interim answers without end", async () => {
  let rounds = 0;
  const output = await answer(async (connection) => {
    for (; rounds < 10_000; rounds++) {
      await connection.write("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n".repeat(50));
    }
  });
  assertEquals([output.status, (await output.ended).outcome], [502, "upstream_error"]);
  assertLess(rounds, 10_000);
});

Deno.test("OpenAiEngine takes the answer behind a few interim ones", async () => {
  const interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
  const output = await answer((connection) => connection.write(interim + GOOD));
  assertEquals([output.status, (await output.ended).outcome], [200, "ok"]);
});

for (const status of ["101 Switching Protocols", "304 Not Modified", "600 Beyond", "999 Beyond"]) {
  Deno.test(`OpenAiEngine says at once that it cannot pass on status ${status}`, async () => {
    const begun = performance.now();
    const head = `HTTP/1.1 ${status}\r\nupgrade: x\r\nconnection: upgrade\r\ncontent-length: 0\r\n\r\n`;
    const output = await answer((connection) => connection.write(head));
    assertEquals([output.status, (await output.ended).outcome], [502, "upstream_error"]);
    assertLess(performance.now() - begun, 2_000);
  });
}
