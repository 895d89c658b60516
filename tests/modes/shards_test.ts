/** `frontend --shards 2` as a program: one port, one answer, whichever shard is met. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { deadline, delay } from "@std/async";
import { SAME_WISH_MS } from "../../src/modes/signals.ts";
import { freePorts } from "../support/free_ports.ts";
import { chat, eventsOf, Program } from "../support/program.ts";

const LIMIT_MS = 30_000;
const READY = /serves on (http:\S+), workers join at (\S+)/;
/** Connections after which it would be a wonder (1 in 10^9) if one of two shards had got none. */
const CONNECTIONS = 30;

/** A request on a connection of its own, so that the kernel chooses a shard anew. */
async function get(url: string, path: string): Promise<{ status: number; text: string }> {
  const response = await fetch(`${url}${path}`, { headers: { connection: "close" } });
  return { status: response.status, text: await response.text() };
}

async function untilHealthy(url: string): Promise<void> {
  while ((await get(url, "/health")).status !== 200) await delay(10);
}

async function running(...workerArgs: string[]) {
  const listen = ["--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"];
  const flags = ["--shards", "2", ...listen, "--log-level", "debug"];
  const frontend = new Program(["frontend", ...flags]);
  const [, url, node] = await deadline(frontend.ready(READY), LIMIT_MS);
  const worker = new Program(["worker", "--frontend", node!, "--mock-ttft-ms", "1", ...workerArgs]);
  await deadline(untilHealthy(url!), LIMIT_MS);
  return { frontend, worker, url: url! };
}

function sample(page: string, name: string): number {
  const line = page.split("\n").find((one) => one.startsWith(`${name} `));
  assert(line !== undefined, `${name} is on the page`);
  return Number(line.slice(name.length + 1));
}

Deno.test("frontend --shards 2 answers for the whole process from any shard, and both serve", async () => {
  const { frontend, worker, url } = await running("--mock-itl-ms", "1");
  await using _frontend = frontend;
  await using _worker = worker;
  for (let i = 0; i < CONNECTIONS; i++) {
    const response = await chat(url, { max_tokens: 2 }, { headers: { connection: "close" } });
    assertEquals(response.status, 200);
    assertEquals(eventsOf(await response.text()).at(-1), "[DONE]");
  }
  const started =
    'tokenplane_frontend_requests_started_total{endpoint="chat_completions",request_type="stream"}';
  for (let i = 0; i < CONNECTIONS; i++) {
    const models = JSON.parse((await get(url, "/v1/models")).text);
    assertEquals(models.data.map((model: { id: string }) => model.id), ["mock"]);
    assertEquals(JSON.parse((await get(url, "/health")).text), { status: "healthy", models: ["mock"] });
    const page = (await get(url, "/metrics")).text;
    assertEquals(sample(page, started), CONNECTIONS);
    assertEquals(sample(page, 'tokenplane_frontend_workers{state="ready"}'), 1);
    for (const shard of ["0", "1"]) assertEquals(sample(page, `tokenplane_shard_up{shard="${shard}"}`), 1);
    for (const shard of ["0", "1"]) {
      assert(sample(page, `tokenplane_eventloop_delay_seconds_count{shard="${shard}"}`) > 0);
      assert(sample(page, `tokenplane_eventloop_lag_max_seconds{shard="${shard}"}`) >= 0);
    }
  }
  assertEquals(frontend.stderr.match(/worker_joined shard=\d/g)?.toSorted(), [
    "worker_joined shard=0",
    "worker_joined shard=1",
  ]);
  const served = new Set(frontend.stderr.match(/request_ended shard=\d/g));
  assertEquals([...served].toSorted(), ["request_ended shard=0", "request_ended shard=1"]);
  for (const program of [worker, frontend]) {
    program.kill("SIGTERM");
    const { code, stderr } = await deadline(program.finished(), LIMIT_MS);
    assertEquals(code, 0, stderr);
  }
});

Deno.test("frontend --shards 2 finishes the streams of both shards after SIGTERM, code 0", async () => {
  const { frontend, worker, url } = await running("--mock-itl-ms", "10");
  await using _frontend = frontend;
  await using _worker = worker;
  const streams = await Promise.all(
    Array.from(
      { length: CONNECTIONS },
      () => chat(url, { max_tokens: 60 }, { headers: { connection: "close" } }),
    ),
  );
  frontend.kill("SIGTERM");
  for (const stream of streams) assertEquals(eventsOf(await stream.text()).length, 63);
  const { code, stderr } = await deadline(frontend.finished(), LIMIT_MS);
  assertEquals(code, 0, stderr);
});

Deno.test("frontend --shards 2 exits at once with 143 on a second SIGTERM", async () => {
  const { frontend, worker, url } = await running("--mock-itl-ms", "10");
  await using _frontend = frontend;
  await using _worker = worker;
  const response = await chat(url, { max_tokens: 100_000 });
  const reader = response.body!.getReader();
  await reader.read();
  frontend.kill("SIGTERM");
  while ((await get(url, "/health")).status === 200) await delay(5);
  await delay(SAME_WISH_MS);
  frontend.kill("SIGTERM");
  assertEquals((await deadline(frontend.finished(), LIMIT_MS)).code, 143);
  await reader.cancel().catch(() => {});
});

Deno.test("frontend --shards 2 refuses a port that another program has, with code 2", async () => {
  const other = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = other.addr as Deno.NetAddr;
  await using frontend = new Program([
    ...["frontend", "--shards", "2", "--listen", `127.0.0.1:${port}`, "--node-listen", "127.0.0.1:0"],
  ]);
  const { code, stderr } = await deadline(frontend.finished(), LIMIT_MS);
  other.close();
  assertEquals(code, 2);
  assert(stderr.includes(`Cannot listen on "127.0.0.1:${port}"`), stderr);
});

Deno.test("frontend --shards 2 listens for workers on the node port and the next one", async () => {
  const port = freePorts(2);
  const node = `127.0.0.1:${port}`;
  await using frontend = new Program([
    ...["frontend", "--shards", "2", "--listen", "127.0.0.1:0", "--node-listen", node],
  ]);
  const [, , told] = await deadline(frontend.ready(READY), LIMIT_MS);
  assertEquals(told, node);
  for (const one of [port, port + 1]) (await Deno.connect({ hostname: "127.0.0.1", port: one })).close();
});

Deno.test("frontend --shards 2 refuses a taken node port of its second shard with one line, code 2", async () => {
  const port = freePorts(2);
  using _other = Deno.listen({ hostname: "127.0.0.1", port: port + 1 });
  await using frontend = new Program([
    ...["frontend", "--shards", "2", "--listen", "127.0.0.1:0", "--node-listen", `127.0.0.1:${port}`],
  ]);
  const { code, stdout, stderr } = await deadline(frontend.finished(), LIMIT_MS);
  assertEquals([code, stdout], [2, ""], stderr);
  assertMatch(stderr, /^tokenplane: Cannot listen on [^\n]+\n$/);
  assert(stderr.includes(`"127.0.0.1:${port + 1}"`), stderr);
});
