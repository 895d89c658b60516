/** Processes that come back: a worker under its old address, a frontend under its old port with a new id. */
import { assertEquals } from "@std/assert";
import { deadline, delay } from "@std/async";
import { freePorts } from "../support/free_ports.ts";
import { chat, eventsOf, Program } from "../support/program.ts";

const LIMIT_MS = 20_000;
const READY = /serves on (http:\/\/127\.0\.0\.1:\d+), workers join at (127\.0\.0\.1:\d+)/;

function newFrontend(shards: number, listen = "127.0.0.1:0", node = "127.0.0.1:0"): Program {
  return new Program(["frontend", "--listen", listen, "--node-listen", node, "--shards", `${shards}`]);
}

function newWorker(node: string, ...args: string[]): Program {
  return new Program(["worker", "--frontend", node, "--mock-ttft-ms", "1", "--mock-itl-ms", "2", ...args]);
}

async function healthIs(url: string, status: number): Promise<void> {
  for (;;) {
    const health = await fetch(`${url}/health`).catch(() => null);
    await health?.body?.cancel();
    if (health?.status === status) return;
    await delay(10);
  }
}

async function tokens(url: string): Promise<number> {
  const response = await chat(url, { max_tokens: 20 });
  const events = eventsOf(await response.text());
  assertEquals([response.status, events.at(-1)], [200, "[DONE]"]);
  return events.length - 3;
}

Deno.test("a worker that was killed and started again serves again, and one that drained too", async () => {
  await using frontend = newFrontend(1);
  const [, url, node] = await deadline(frontend.ready(READY), LIMIT_MS);
  for (const signal of ["SIGKILL", "SIGTERM"] as const) {
    await using worker = newWorker(node!);
    await deadline(healthIs(url!, 200), LIMIT_MS);
    assertEquals(await tokens(url!), 20);
    worker.kill(signal);
    const { code } = await deadline(worker.finished(), LIMIT_MS);
    if (signal === "SIGTERM") assertEquals(code, 0);
    await deadline(healthIs(url!, 503), LIMIT_MS);
  }
  await using worker = newWorker(node!);
  await deadline(healthIs(url!, 200), LIMIT_MS);
  assertEquals(await tokens(url!), 20);
  worker.kill("SIGTERM");
  await deadline(worker.finished(), LIMIT_MS);
});

for (const shards of [1, 2]) {
  Deno.test(`a frontend (${shards} shards) that was killed and started again at its ports is joined again, and streams of both are right`, async () => {
    // Each shard's port must be free again.
    await using first = newFrontend(shards, "127.0.0.1:0", `127.0.0.1:${freePorts(shards)}`);
    const [, url, node] = await deadline(first.ready(READY), LIMIT_MS);
    await using worker = newWorker(node!);
    await deadline(healthIs(url!, 200), LIMIT_MS);
    // Left running into the kill: its worker must not go on for a frontend that is no more.
    const cut = await chat(url!, { max_tokens: 1_000_000 });
    const reader = cut.body!.getReader();
    await reader.read();
    const address = url!.slice("http://".length);
    first.kill("SIGKILL");
    await first.finished();
    for (let round = 0; round < 2; round++) {
      await using next = newFrontend(shards, address, node!);
      await deadline(next.ready(READY), LIMIT_MS);
      await deadline(healthIs(url!, 200), LIMIT_MS);
      // The new one counts its streams from the beginning: none may end up with the other's.
      assertEquals(await Promise.all(Array.from({ length: 20 }, () => tokens(url!))), new Array(20).fill(20));
      next.kill("SIGKILL");
      await next.finished();
    }
    await reader.cancel().catch(() => {});
    worker.kill("SIGTERM");
    assertEquals((await deadline(worker.finished(), LIMIT_MS)).code, 0);
  });

  Deno.test(`a worker that is told to stop finishes its streams, another takes the new ones (${shards} shards)`, async () => {
    await using frontend = newFrontend(shards);
    const [, url, node] = await deadline(frontend.ready(READY), LIMIT_MS);
    await using first = newWorker(node!);
    await deadline(healthIs(url!, 200), LIMIT_MS);
    const running = await chat(url!, { max_tokens: 300 });
    await using second = newWorker(node!, "--model", "mock", "--model", "second");
    while (!JSON.stringify(await (await fetch(`${url}/v1/models`)).json()).includes("second")) {
      await delay(10);
    }
    first.kill("SIGTERM");
    for (let i = 0; i < 20; i++) assertEquals(await tokens(url!), 20);
    assertEquals(eventsOf(await running.text()).length, 303);
    const { code, stderr } = await deadline(first.finished(), LIMIT_MS);
    assertEquals(code, 0, stderr);
    second.kill("SIGTERM");
    await deadline(second.finished(), LIMIT_MS);
    frontend.kill("SIGTERM");
    assertEquals((await deadline(frontend.finished(), LIMIT_MS)).code, 0);
  });
}
