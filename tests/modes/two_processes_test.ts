import { assert, assertEquals } from "@std/assert";
import { deadline, delay } from "@std/async";
import { chat, eventsOf, Program } from "../support/program.ts";

const LIMIT_MS = 20_000;

async function untilServing(url: string): Promise<void> {
  for (;;) {
    const health = await fetch(`${url}/health`);
    await health.body?.cancel();
    if (health.status === 200) return;
    await delay(20);
  }
}

function worker(node: string, ...args: string[]): Program {
  return new Program(["worker", "--frontend", node, "--mock-ttft-ms", "1", "--batch-ms", "0", ...args]);
}

Deno.test("frontend and worker serve as separate processes, and a worker killed in mid-stream ends its streams", async () => {
  await using frontend = new Program(["frontend", "--listen", "127.0.0.1:0", "--node-listen", "127.0.0.1:0"]);
  const [, url, node] = await deadline(
    frontend.ready(/serves on (http:\S+), workers join at (\S+)/),
    LIMIT_MS,
  );
  const before = await fetch(`${url}/health`);
  assertEquals(before.status, 503);
  await before.body?.cancel();
  await using mortal = worker(node!, "--model", "mortal");
  await using other = worker(node!, "--model", "mock", "--mock-itl-ms", "10", "--mock-pacing", "exact");
  await deadline(Promise.all([mortal.ready(/listens on/), other.ready(/listens on/)]), LIMIT_MS);
  await deadline(untilServing(url!), LIMIT_MS);
  await deadline(modelsAre(url!, ["mock", "mortal"]), LIMIT_MS);

  const kept = await chat(url!, { max_tokens: 200 });
  const cut = await chat(url!, { model: "mortal", max_tokens: 100_000 });
  const reader = cut.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = (await reader.read()).value!;
  const killedAt = performance.now();
  mortal.kill("SIGKILL");
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  assert(performance.now() - killedAt < 2_000, "the client learns within 2 s");
  const events = eventsOf(text);
  assertEquals(events.at(-1), "[DONE]");
  assert(events.at(-2)!.includes('"error"'), events.at(-2));
  assertEquals(events.filter((event) => event.includes('"error"')).length, 1);
  await deadline(modelsAre(url!, ["mock"]), LIMIT_MS);
  assertEquals(eventsOf(await kept.text()).length, 203);

  for (const program of [other, frontend]) {
    program.kill("SIGTERM");
    const { code, stderr } = await deadline(program.finished(), LIMIT_MS);
    assertEquals(code, 0, stderr);
  }
});

async function modelsAre(url: string, expected: readonly string[]): Promise<void> {
  for (;;) {
    const { data } = await (await fetch(`${url}/v1/models`)).json();
    const models = data.map((model: { id: string }) => model.id).toSorted();
    if (models.join() === expected.join()) return;
    await delay(20);
  }
}
