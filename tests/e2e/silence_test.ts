/** Nodes that stop without closing anything, that vanish, or that were never nodes. */
import { assert, assertEquals } from "@std/assert";
import { deadline, delay } from "@std/async";
import { LiveSystem } from "../support/live_system.ts";
import { chat, eventsOf, Program } from "../support/program.ts";
import { until } from "../support/until.ts";

const LIMIT_MS = 20_000;
const READY = /serves on (http:\/\/127\.0\.0\.1:\d+), workers join at (127\.0\.0\.1:\d+)/;
/** Silence of 600 ms is death, for streams and for workers. */
const QUICK = ["--heartbeat-interval-ms", "200", "--missed-beats", "3", "--join-interval-ms", "200"];

async function modelsAre(url: string, expected: readonly string[]): Promise<void> {
  for (;;) {
    const { data } = await (await fetch(`${url}/v1/models`)).json();
    if (data.map((model: { id: string }) => model.id).join() === expected.join()) return;
    await delay(10);
  }
}

Deno.test("a worker that is frozen loses its streams and its place, and has it again when it thaws", async () => {
  await using frontend = new Program([
    ...["frontend", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0", "--ack-timeout-ms", "500"],
    ...QUICK,
  ]);
  const [, url, node] = await deadline(frontend.ready(READY), LIMIT_MS);
  const worker = (model: string, step: string) =>
    new Program([
      ...["worker", "--frontend", node!, "--model", model, "--mock-ttft-ms", "1", "--mock-itl-ms", step],
      ...["--heartbeat-interval-ms", "200"],
    ]);
  await using frozen = worker("frozen", "5");
  // Its tokens are further apart than what counts as silence: beats alone keep its streams alive.
  await using slow = worker("slow", "1000");
  await deadline(modelsAre(url!, ["frozen", "slow"]), LIMIT_MS);
  const cut = await chat(url!, { model: "frozen", max_tokens: 1_000_000 });
  const reader = cut.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value!;
  const kept = chat(url!, { model: "slow", max_tokens: 4 }).then((response) => response.text());
  frozen.kill("SIGSTOP");
  try {
    const stopped = performance.now();
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    assert(performance.now() - stopped < 4_000, "the stream ends soon after three silent intervals");
    const events = eventsOf(text);
    assertEquals(events.at(-1), "[DONE]");
    // Its stream was silent, or its joins were: whichever is noticed first.
    assert(["timeout", "dropped"].includes(JSON.parse(events.at(-2)!).error.code), events.at(-2));
    await deadline(modelsAre(url!, ["slow"]), LIMIT_MS);
    const nobody = await chat(url!, { model: "frozen" });
    // Models are those that every shard has: a shard that still waits for the worker's answer says 502.
    assert([502, 503].includes(nobody.status), `status ${nobody.status}`);
    await nobody.body?.cancel();
  } finally {
    frozen.kill("SIGCONT");
  }
  await deadline(modelsAre(url!, ["frozen", "slow"]), LIMIT_MS);
  assertEquals(eventsOf(await (await chat(url!, { model: "frozen", max_tokens: 5 })).text()).length, 8);
  assertEquals(eventsOf(await kept).length, 7);
  for (const program of [frozen, slow, frontend]) {
    program.kill("SIGTERM");
    assertEquals((await deadline(program.finished(), LIMIT_MS)).code, 0, program.stderr);
  }
});

Deno.test("a frontend that was frozen itself takes nobody else to be dead", async () => {
  await using frontend = new Program([
    ...["frontend", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"],
    ...QUICK,
  ]);
  const [, url, node] = await deadline(frontend.ready(READY), LIMIT_MS);
  await using worker = new Program([
    ...["worker", "--frontend", node!, "--mock-ttft-ms", "1", "--mock-itl-ms", "20"],
    ...["--heartbeat-interval-ms", "200"],
  ]);
  await deadline(modelsAre(url!, ["mock"]), LIMIT_MS);
  const running = await Promise.all(Array.from({ length: 20 }, () => chat(url!, { max_tokens: 200 })));
  const texts = Promise.all(running.map((response) => response.text()));
  await delay(200);
  frontend.kill("SIGSTOP");
  await delay(1_500);
  frontend.kill("SIGCONT");
  for (const text of await deadline(texts, LIMIT_MS)) {
    const events = eventsOf(text);
    assertEquals([events.length, events.at(-1)], [203, "[DONE]"], events.at(-2));
  }
  for (const program of [worker, frontend]) {
    program.kill("SIGTERM");
    assertEquals((await deadline(program.finished(), LIMIT_MS)).code, 0, program.stderr);
  }
});

Deno.test("engines stop when their frontend vanishes", async () => {
  await using system = await LiveSystem.start();
  const { engine, worker } = await system.addMock();
  const fields = {
    model: "mock",
    stream: true,
    max_tokens: 1_000_000,
    messages: [{ role: "user", content: "hi" }],
  };
  const readers = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const reader = (await system.post("/v1/chat/completions", fields)).body!.getReader();
      await reader.read();
      return reader;
    }),
  );
  assertEquals(engine.running, 20);
  await system.node.transport.shutdown(0); // its node's sockets go without a word
  await until(() => engine.running === 0, "the engine to stop", 2_000);
  assertEquals(worker.status.inFlight, 0);
  await Promise.all(readers.map((reader) => reader.cancel()));
});

Deno.test("one worker serves two frontends, and one of them may leave", async () => {
  await using first = await LiveSystem.start();
  await using second = await LiveSystem.start();
  const shared = await first.addMock({}, ["mock"], [second]);
  await until(() => second.frontend.table.isServing, "the worker to join both");
  const ask = async (system: LiveSystem, tokens: number): Promise<number> => {
    const messages = [{ role: "user", content: "hi" }];
    const fields = { model: "mock", stream: true, max_tokens: tokens, messages };
    return eventsOf(await (await system.post("/v1/chat/completions", fields)).text()).length - 3;
  };
  const counts = await Promise.all(
    Array.from({ length: 60 }, (_, index) => ask(index % 2 === 0 ? first : second, 40)),
  );
  assertEquals(counts, new Array(60).fill(40));
  const running = ask(first, 400);
  await second.frontend.close();
  await second.node.messenger.shutdown(500);
  assertEquals(await running, 400);
  await first.quiet();
  assertEquals(shared.worker.status.stats.outcomes.ok, 61);
});

Deno.test("a node port lives through what is no node", async () => {
  await using system = await LiveSystem.start();
  await system.addMock();
  const { port } = system.node.transport.address;
  const frame = (header: number, payload: number, type = 0): Uint8Array => {
    const bytes = new Uint8Array(11 + 64);
    const view = new DataView(bytes.buffer);
    view.setUint16(0, 1);
    view.setUint8(2, type);
    view.setUint32(3, header);
    view.setUint32(7, payload);
    return bytes;
  };
  const attacks: Uint8Array[] = [
    new TextEncoder().encode("GET / HTTP/1.1\r\nhost: x\r\n\r\n"),
    new Uint8Array(65_536).fill(0xff),
    new Uint8Array(65_536),
    frame(0xffff_ffff, 0xffff_ffff),
    frame(16_777_216, 16_777_216),
    frame(32, 32, 0),
    frame(32, 32, 1),
    frame(0, 0, 250),
    crypto.getRandomValues(new Uint8Array(8_192)),
  ];
  const before = Deno.memoryUsage().rss;
  for (let round = 0; round < 10; round++) {
    for (const attack of attacks) {
      const conn = await Deno.connect({ hostname: "127.0.0.1", port });
      await conn.write(attack).catch(() => {});
      conn.close();
    }
  }
  const messages = [{ role: "user", content: "hi" }];
  const fields = { model: "mock", stream: true, max_tokens: 20, messages };
  const text = await (await system.post("/v1/chat/completions", fields)).text();
  assertEquals(eventsOf(text).length, 23);
  assert(Deno.memoryUsage().rss - before < 100 * 1024 * 1024, "declared sizes were believed");
  await system.quiet();
});
