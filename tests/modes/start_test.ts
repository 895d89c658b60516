import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { deadline, delay } from "@std/async";
import { SAME_WISH_MS } from "../../src/modes/signals.ts";
import { chat, eventsOf, FROM_SOURCE, Program } from "../support/program.ts";

const READY = /serves on (http:\/\/127\.0\.0\.1:\d+) /;
const LIMIT_MS = 20_000;

async function start(args: readonly string[] = [], env: Record<string, string> = {}) {
  const program = new Program(
    ["start", "--listen", "127.0.0.1:0", "--batch-ms", "0", ...args],
    env,
    FROM_SOURCE,
  );
  const [, url] = await deadline(program.ready(READY), LIMIT_MS);
  return { program, url: url! };
}

Deno.test("start serves a stream by the curl line it prints, and SIGINT ends it with code 0", async () => {
  const { program, url } = await start(["--mock-ttft-ms", "1", "--mock-itl-ms", "1"]);
  await using _program = program;
  const [, line] = await program.ready(/^(curl -N .*)$/m);
  const { stdout, code } = await new Deno.Command("sh", { args: ["-c", line!], stderr: "null" }).output();
  assertEquals(code, 0);
  const events = eventsOf(new TextDecoder().decode(stdout));
  assertEquals(events.at(-1), "[DONE]");
  assertEquals(events.length, 64 + 3); // role, tokens, finish, [DONE]
  assertEquals((await (await fetch(`${url}/v1/models`)).json()).data[0].id, "mock");
  program.kill("SIGINT");
  const finished = await deadline(program.finished(), LIMIT_MS);
  assertEquals(finished.code, 0, finished.stderr);
});

Deno.test("start finishes running streams after SIGTERM and refuses new requests meanwhile", async () => {
  const { program, url } = await start([
    "--mock-ttft-ms",
    "1",
    "--mock-itl-ms",
    "10",
    "--drain-timeout",
    "20",
  ]);
  await using _program = program;
  const response = await chat(url, { max_tokens: 100 });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value!;
  program.kill("SIGTERM");
  // The signal takes its time; health says when it has arrived.
  let health = await fetch(`${url}/health`);
  while (health.status === 200) {
    await health.body?.cancel();
    health = await fetch(`${url}/health`);
  }
  assertEquals(health.status, 503);
  await health.body?.cancel();
  const refused = await chat(url, {});
  assertEquals(refused.status, 503);
  assertStringIncludes(await refused.text(), '"error"');
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  const events = eventsOf(text);
  assertEquals([events.length, events.at(-1)], [103, "[DONE]"]);
  assertEquals((await deadline(program.finished(), LIMIT_MS)).code, 0);
});

Deno.test("start ends what still runs at the end of the drain with an error event, code 0", async () => {
  const { program, url } = await start([
    "--mock-ttft-ms",
    "1",
    "--mock-itl-ms",
    "50",
    "--drain-timeout",
    "0",
  ]);
  await using _program = program;
  const response = await chat(url, { max_tokens: 100_000 });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value!;
  program.kill("SIGTERM");
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  const events = eventsOf(text);
  assertEquals(events.at(-1), "[DONE]");
  assert(events.at(-2)!.includes('"error"'), events.at(-2));
  assertEquals((await deadline(program.finished(), LIMIT_MS)).code, 0);
});

for (const [signal, code] of [["SIGINT", 130], ["SIGTERM", 143]] as const) {
  Deno.test(`start exits at once with ${code} on a second ${signal}`, async () => {
    const { program, url } = await start(["--mock-ttft-ms", "1", "--drain-timeout", "600"]);
    await using _program = program;
    const response = await chat(url, { max_tokens: 100_000 });
    const reader = response.body!.getReader();
    await reader.read();
    program.kill(signal);
    let health = await fetch(`${url}/health`);
    while (health.status === 200) {
      await health.body?.cancel();
      health = await fetch(`${url}/health`);
    }
    await health.body?.cancel();
    await delay(SAME_WISH_MS);
    program.kill(signal);
    assertEquals((await deadline(program.finished(), LIMIT_MS)).code, code);
    await reader.read().catch(() => {}); // whatever had arrived
    await reader.cancel().catch(() => {});
  });
}

Deno.test("start asks for the key it was given and never shows it", async () => {
  const { program, url } = await start(["--log-level", "debug"], { TOKENPLANE_API_KEY: "sk-never-shown" });
  await using _program = program;
  const refused = await chat(url, {});
  assertEquals(refused.status, 401);
  await refused.body?.cancel();
  const accepted = await chat(url, { max_tokens: 2 }, {
    headers: { "content-type": "application/json", authorization: "Bearer sk-never-shown" },
  });
  assertEquals(accepted.status, 200);
  await accepted.text();
  program.kill("SIGTERM");
  const { code, stdout, stderr } = await deadline(program.finished(), LIMIT_MS);
  assertEquals(code, 0);
  assert(!stdout.includes("sk-never") && !stderr.includes("sk-never"), stdout + stderr);
});
