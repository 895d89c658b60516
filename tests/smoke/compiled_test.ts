/** The compiled program, end to end: every mode in one file. `deno task compile` makes it. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { deadline } from "@std/async";
import { optionalTest } from "../support/optional.ts";
import { chat, eventsOf, Program, runProgram } from "../support/program.ts";

const binary = new URL("../../dist/tokenplane", import.meta.url).pathname;
const isThere = await Deno.stat(binary).then(() => true, () => false);
const COMPONENT = "dist/tokenplane (deno task compile)";
const LIMIT_MS = 30_000;

optionalTest(COMPONENT, isThere, "dist/tokenplane checks its flags", async () => {
  const { code, stderr } = await runProgram(["start", "--lanes", "99"], {}, [binary]);
  assertEquals(code, 2);
  assertStringIncludes(stderr, '--lanes "99"');
});

optionalTest(COMPONENT, isThere, "dist/tokenplane start streams through its worker isolates", async () => {
  await using program = new Program(["start", "--listen", "127.0.0.1:0"], {}, [binary]);
  const [, url] = await deadline(program.ready(/serves on (http:\S+) /), LIMIT_MS);
  const response = await chat(url!, { max_tokens: 10 });
  assertEquals(response.status, 200);
  assertEquals(eventsOf(await response.text()).length, 13);
  const long = await chat(url!, { max_tokens: 50 });
  program.kill("SIGINT");
  let health = await fetch(`${url}/health`);
  while (health.status === 200) {
    await health.body?.cancel();
    health = await fetch(`${url}/health`);
  }
  await health.body?.cancel();
  assertEquals(health.status, 503);
  assertEquals(eventsOf(await long.text()).length, 53);
  const finished = await deadline(program.finished(), LIMIT_MS);
  assertEquals(finished.code, 0, finished.stderr);
});

optionalTest(COMPONENT, isThere, "dist/tokenplane frontend and worker join as processes", async () => {
  const listen = ["--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"];
  await using frontend = new Program(["frontend", ...listen], {}, [binary]);
  const [, url, node] = await deadline(
    frontend.ready(/serves on (http:\S+), workers join at (\S+)/),
    LIMIT_MS,
  );
  await using worker = new Program(["worker", "--frontend", node!], {}, [binary]);
  await deadline(worker.ready(/listens on/), LIMIT_MS);
  let response = await chat(url!, { max_tokens: 5 });
  while (response.status === 404 || response.status === 503) {
    await response.body?.cancel(); // not joined yet
    response = await chat(url!, { max_tokens: 5 });
  }
  assertEquals(eventsOf(await response.text()).length, 8);
  for (const one of [worker, frontend]) {
    one.kill("SIGTERM");
    assertEquals((await deadline(one.finished(), LIMIT_MS)).code, 0);
  }
});

optionalTest(
  COMPONENT,
  isThere,
  "dist/tokenplane frontend --shards 2 serves from its shard isolates",
  async () => {
    const listen = ["--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"];
    await using frontend = new Program(["frontend", "--shards", "2", ...listen], {}, [binary]);
    const [, url] = await deadline(frontend.ready(/serves on (http:\S+),/), LIMIT_MS);
    const page = await (await fetch(`${url}/metrics`)).text();
    const up = page.match(/^tokenplane_shard_up\{shard="\d"\} 1$/gm) ?? [];
    // A base runtime of another version may not share ports between isolates; it must say so, and serve.
    assertEquals(up.length, frontend.stderr.includes("shards_unavailable") ? 0 : 2);
    frontend.kill("SIGTERM");
    assertEquals((await deadline(frontend.finished(), LIMIT_MS)).code, 0);
  },
);
