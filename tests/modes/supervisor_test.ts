/** Shards that die: what their clients, the others and the worker see. */
import { assert, assertEquals } from "@std/assert";
import { deadline, delay } from "@std/async";
import { resolveSettings } from "../../src/config/resolve.ts";
import { Credentials } from "../../src/modes/credentials.ts";
import { commonModels, Supervisor } from "../../src/modes/shards/supervisor.ts";
import { Collection } from "../../src/modes/shards/collection.ts";
import { type RunningWorker, startWorker } from "../../src/modes/worker.ts";
import { createLogger, silentLogger } from "../../src/observe/log.ts";
import { Collectors } from "../../src/observe/metrics.ts";
import { RawClient } from "../support/frontend_harness.ts";

const LIMIT_MS = 30_000;
const CLIENTS = 24;

interface World {
  readonly supervisor: Supervisor;
  readonly worker: RunningWorker;
  readonly url: string;
  readonly log: string[];
}

async function withShards(test: (world: World) => Promise<void>): Promise<void> {
  const log: string[] = [];
  const flags = ["--shards", "2", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"];
  const settings = resolveSettings("frontend", [...flags, "--log-level", "silent"], {});
  const supervisor = await Supervisor.start(
    settings,
    settings,
    createLogger({ write: (line) => log.push(line) }),
    await Credentials.load(settings, silentLogger),
  );
  const worker = await startWorker(
    resolveSettings("worker", [
      ...["--frontend", `127.0.0.1:${supervisor.node.port}`, "--mock-ttft-ms", "1", "--mock-itl-ms", "20"],
    ], {}),
    silentLogger,
  );
  try {
    const url = `http://127.0.0.1:${supervisor.http.port}`;
    while (await health(url) !== 200) await delay(10);
    await test({ supervisor, worker, url, log });
  } finally {
    await supervisor.close();
    await worker.close();
  }
}

async function health(url: string): Promise<number> {
  const response = await fetch(`${url}/health`, { headers: { connection: "close" } });
  await response.body?.cancel();
  return response.status;
}

async function openStream(port: number, tokens: number): Promise<RawClient> {
  const body = JSON.stringify({
    model: "mock",
    stream: true,
    max_tokens: tokens,
    messages: [{ role: "user", content: "Hi" }],
  });
  const client = await RawClient.connect(port);
  client.send(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  );
  // Three events: by then the sends of this stream are direct ones.
  await client.until((text) => text.split("data: ").length > 3);
  return client;
}

Deno.test("Supervisor closes the connections of a shard that is cut off, keeps the others, starts it again", async () => {
  await withShards(async ({ supervisor, worker, url, log }) => {
    const { port } = supervisor.http;
    const node = supervisor.node;
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => openStream(port, 100)));
    assertEquals(worker.joined(), 2);
    supervisor.terminate(0);
    const texts = await deadline(Promise.all(clients.map((client) => client.closed())), LIMIT_MS);
    const whole = texts.filter((text) => text.endsWith("\r\n0\r\n\r\n"));
    for (const text of whole) assert(text.includes("data: [DONE]"));
    assert(whole.length > 0 && whole.length < CLIENTS, `${whole.length} of ${CLIENTS} are whole`);
    // The kernel may have given every connection to one shard, but that is one chance in millions.
    const cut = texts.filter((text) => !text.endsWith("\r\n0\r\n\r\n"));
    for (const text of cut) assert(!text.includes("data: [DONE]"), "a cut stream must not look finished");

    await deadline(untilRestarted(log), LIMIT_MS);
    assertEquals(supervisor.node, node);
    while (worker.joined() < 2) await delay(10);
    for (let i = 0; i < CLIENTS; i++) {
      assertEquals(await health(url), 200);
      const client = await openStream(port, 4);
      const text = await client.closed();
      assert(text.endsWith("data: [DONE]\n\n\r\n0\r\n\r\n"), text);
    }
    const page = await (await fetch(`${url}/metrics`)).text();
    assert(page.includes('tokenplane_shard_restarts_total{shard="0"} 1'), page);
  });
});

async function untilRestarted(log: readonly string[]): Promise<void> {
  while (!log.some((line) => line.includes("shard_restarted"))) await delay(5);
}

Deno.test("Supervisor leaves no descriptor behind, whether shards were cut off or closed", async () => {
  const open = () => [...Deno.readDirSync("/proc/self/fd")].length;
  await withShards(() => Promise.resolve()); // what is loaded once stays
  const before = open();
  await withShards(async ({ supervisor, log }) => {
    const clients = await Promise.all(
      Array.from({ length: CLIENTS }, () => openStream(supervisor.http.port, 10_000)),
    );
    supervisor.terminate(0);
    supervisor.terminate(1);
    await deadline(Promise.all(clients.map((client) => client.closed())), LIMIT_MS);
    await deadline(untilRestarted(log), LIMIT_MS);
  });
  // An isolate gives its own back some time after it was told to end.
  const until = performance.now() + 30_000;
  while (open() > before && performance.now() < until) await delay(10);
  assertEquals(open() <= before, true, `${open()} descriptors are open, ${before} were before`);
});

Deno.test("commonModels keeps what every shard has", () => {
  const card = (id: string) => ({ id, created: 1, ownedBy: "o" });
  const ids = (...offers: string[][]) => commonModels(offers.map((ids) => ids.map(card))).map(({ id }) => id);
  assertEquals(ids(), []);
  assertEquals(ids(["a", "b"]), ["a", "b"]);
  assertEquals(ids(["a", "b", "c"], ["c", "a"]), ["a", "c"]);
  assertEquals(ids(["a"], []), []);
});

Deno.test("Collection names the shard that does not answer, and is done in time", async () => {
  const lines: string[] = [];
  const series = async (value: number) => {
    const collectors = new Collectors();
    collectors.add("requests_total", "Requests.", "counter", () => value);
    collectors.add("workers", "Workers.", "gauge", () => value, "max");
    return await collectors.series();
  };
  const answering = { index: 0, isAccepting: true, send: ({ id }: { id: number }) => void answer(id) };
  const third = { index: 2, isAccepting: true, send: ({ id }: { id: number }) => void answerThird(id) };
  const silent = { index: 1, isAccepting: true, send: () => {} };
  const starting = { index: 3, isAccepting: false, send: () => assert(false, "nobody asks it") };
  const collection = new Collection({
    own: new Collectors(),
    count: 5,
    shards: () => [answering, silent, third, starting],
    log: createLogger({ write: (line) => lines.push(line) }),
    timeoutMs: 30,
  });
  const answer = async (id: number) => collection.handle(answering, id, await series(3));
  const answerThird = async (id: number) => {
    collection.handle(third, id - 1, await series(1_000)); // too late, from the one before
    collection.handle(third, id, await series(4));
  };
  const [first, second] = await Promise.all([collection.page(), collection.page()]);
  assertEquals(first, second);
  const samples = first.body.split("\n").filter((line) => !line.startsWith("#") && line !== "");
  assertEquals(samples, [
    'tokenplane_shard_up{shard="0"} 1',
    'tokenplane_shard_up{shard="1"} 0',
    'tokenplane_shard_up{shard="2"} 1',
    'tokenplane_shard_up{shard="3"} 0',
    'tokenplane_shard_up{shard="4"} 0',
    "requests_total 7",
    "workers 4",
  ]);
  assert(lines.some((line) => line.includes("shard_silent shard=1")), lines.join());
});
