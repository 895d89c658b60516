/** The program over UCX, as processes: a client's HTTP in, an engine's bytes out. */
import { assert, assertEquals } from "@std/assert";
import { deadline } from "@std/async";
import { fillPattern } from "../support/pattern.ts";
import { chat, Program } from "../support/program.ts";
import { ScriptedServer } from "../support/scripted_server.ts";
import { TLS_SETS, ucxTest } from "../ucx/support.ts";

const STREAMS = 512;
const EVENTS = 40;
const LIMIT_MS = 60_000;
const encoder = new TextEncoder();

/** What the engine answers to request `index`: events of uneven size whose content no other request has. */
function eventsOf(index: number): string[] {
  const bytes = new Uint8Array(600);
  const events = Array.from({ length: EVENTS }, (_, at) => {
    fillPattern(bytes, index * EVENTS + at);
    const content = bytes.subarray(0, 20 + bytes[0]! * 2).toHex();
    return `data: {"id":"${index}","choices":[{"index":0,"delta":{"content":"${content}"}}]}\n\n`;
  });
  return [...events, "data: [DONE]\n\n"];
}

function engine(): ScriptedServer {
  return new ScriptedServer(async (connection) => {
    while (await connection.readRequest()) {
      const { messages } = JSON.parse(connection.body) as { messages: { content: string }[] };
      await connection.start();
      for (const event of eventsOf(Number(messages[0]!.content))) await connection.chunk(event);
      await connection.finish();
    }
  });
}

async function ask(url: string, index: number): Promise<Uint8Array> {
  const response = await chat(url, { messages: [{ role: "user", content: String(index) }] });
  assertEquals(response.status, 200);
  return new Uint8Array(await response.arrayBuffer());
}

for (const tls of TLS_SETS) {
  ucxTest(`the program carries ${STREAMS} streams at once over UCX, byte for byte (${tls})`, async () => {
    await using upstream = engine();
    const env = { UCX_TLS: tls };
    const common = ["--node-listen", "127.0.0.1:0", "--transport", "ucx"];
    await using frontend = new Program(["frontend", "--listen", "127.0.0.1:0", ...common], env);
    const [, url, node] = await deadline(
      frontend.ready(/serves on (http:\S+), workers join at (\S+)/),
      LIMIT_MS,
    );
    const engineFlags = [
      "--engine",
      "openai",
      "--engine-url",
      upstream.url,
      "--engine-max-connections",
      "1024",
    ];
    await using worker = new Program(
      ["worker", "--frontend", node!, "--model", "mock", "--max-running", "1024", ...common, ...engineFlags],
      env,
    );
    await deadline(worker.ready(/listens on/), LIMIT_MS);
    for (let status = 0; status !== 200;) {
      const response = await chat(url!, { messages: [{ role: "user", content: "0" }] });
      status = response.status;
      await response.body?.cancel();
    }
    const answers = await deadline(
      Promise.all(Array.from({ length: STREAMS }, (_, index) => ask(url!, index))),
      LIMIT_MS,
    );
    answers.forEach((bytes, index) =>
      assertEquals(bytes, encoder.encode(eventsOf(index).join("")), `stream ${index}`)
    );
    const page = await (await fetch(`${url}/metrics`)).text();
    const carried = (transport: string) =>
      [...page.matchAll(/^velo_transport_frame_bytes_total\{(.*)\} (\d+)$/gm)]
        .filter(([, labels]) => labels!.includes(`transport="${transport}"`) && labels!.includes("inbound"))
        .reduce((sum, [, , bytes]) => sum + Number(bytes), 0);
    assert(carried("ucx") > STREAMS * EVENTS * 300, `${carried("ucx")} bytes came over UCX`);
    assert(carried("tcp") < STREAMS * 1_000, `${carried("tcp")} bytes came over TCP`);
    for (const program of [worker, frontend]) {
      program.kill("SIGTERM");
      const { code, stderr } = await deadline(program.finished(), LIMIT_MS);
      assertEquals(code, 0, stderr);
    }
  });
}
