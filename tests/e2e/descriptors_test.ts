/**
 * ai-dynamo/dynamo#11801 (the accept loop spins when descriptors run out) on a whole frontend: with 64 descriptors it
 * lives through more clients than it can accept, at little cost, and serves again when they leave. Deno's `node:http`
 * would not: it stops to accept for good, without an error.
 */
import { assert, assertEquals } from "@std/assert";
import { deadline, delay } from "@std/async";
import { RawClient } from "../support/frontend_harness.ts";
import { chat, eventsOf, FROM_SOURCE, Program } from "../support/program.ts";

const LIMIT_MS = 20_000;

/** CPU time of a process so far, in ms. */
function cpuMs(pid: number): number {
  const fields = Deno.readTextFileSync(`/proc/${pid}/stat`).split(") ")[1]!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

Deno.test("a frontend out of descriptors does not spin, and recovers", async () => {
  const limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh", ...FROM_SOURCE];
  await using frontend = new Program(
    ["frontend", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"],
    {},
    limited,
  );
  const [, url, node] = await deadline(
    frontend.ready(/serves on (http:\/\/127\.0\.0\.1:\d+), workers join at (\S+)/),
    LIMIT_MS,
  );
  await using worker = new Program([
    "worker",
    "--frontend",
    node!,
    "--mock-itl-ms",
    "5",
    "--mock-ttft-ms",
    "1",
  ]);
  await deadline(worker.ready(/listens on/), LIMIT_MS);
  const ask = async (): Promise<number> => {
    const response = await chat(url!, { max_tokens: 20 }, {
      headers: { "content-type": "application/json", connection: "close" },
    });
    const events = eventsOf(await response.text());
    return response.status === 200 ? events.length : 0;
  };
  const serves = async () => {
    while (await ask().catch(() => 0) !== 23) await delay(20);
  };
  await deadline(serves(), LIMIT_MS);
  const port = Number(new URL(url!).port);
  const clients = await Promise.all(Array.from({ length: 120 }, () => RawClient.connect(port)));
  try {
    await delay(500);
    const begun = cpuMs(frontend.pid);
    await delay(1_000);
    const spent = cpuMs(frontend.pid) - begun;
    assert(spent < 500, `${spent} ms of CPU in a second of waiting`);
  } finally {
    await Promise.all(clients.map((client) => client.close()));
  }
  // Only a few are let in at a time, so one may be refused while an earlier one still closes.
  await deadline(serves(), LIMIT_MS);
  for (const program of [worker, frontend]) {
    program.kill("SIGTERM");
    assertEquals((await deadline(program.finished(), LIMIT_MS)).code, 0, program.stderr);
  }
});
