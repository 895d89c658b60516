/** After any mix of finishes, cancels, failures and kills: no slot, no anchor, no descriptor is left. */
import { assert, assertEquals } from "@std/assert";
import { concat } from "../support/concat.ts";
import { LiveSystem, openSockets } from "../support/live_system.ts";
import { until } from "../support/until.ts";

const chat = (tokens: number, fields: Record<string, unknown> = {}) => ({
  model: "mock",
  stream: true,
  max_tokens: tokens,
  messages: [{ role: "user", content: "hi" }],
  ...fields,
});

for (const streamSetup of ["ticket", "attach"] as const) {
  Deno.test(`slots, anchors and descriptors come back after a mix of ends (${streamSetup})`, async () => {
    await using system = await LiveSystem.start({ lostGraceMs: 100 }, { streamSetup });
    for (let i = 0; i < 3; i++) await system.addMock();
    const headers = { "content-type": "application/json", connection: "close" };
    const warm = Array.from({ length: 24 }, async () => {
      await (await system.post("/v1/chat/completions", chat(5), { headers })).text();
    });
    await Promise.all(warm); // every lane is up
    await system.quiet();
    await settled();
    const before = openSockets();
    const run = async (index: number): Promise<void> => {
      const isStream = index % 5 !== 0;
      const isEndless = index % 4 === 0;
      const abort = new AbortController();
      const answer = system.post(
        "/v1/chat/completions",
        chat(isEndless ? 100_000 : 1 + index % 40, { stream: isStream }),
        { signal: abort.signal, headers },
      );
      if (isEndless && !isStream) {
        setTimeout(() => abort.abort(), index % 30);
        await answer.then((response) => response.text()).catch(() => {});
        return;
      }
      const response = await answer;
      if (!isEndless) {
        await response.text();
        return;
      }
      const reader = response.body!.getReader();
      for (let i = 0; i < index % 10; i++) await reader.read();
      await reader.cancel();
    };
    for (let round = 0; round < 4; round++) {
      await Promise.all(Array.from({ length: 100 }, (_, index) => run(round * 100 + index)));
    }
    await system.quiet();
    await until(() => openSockets() <= before, "sockets to close");
    const { ok, cancelled = 0, ...others } = system.outcomes();
    assertEquals([ok, others], [324, {}]);
    // One that left before its request was read was no request.
    assert(cancelled >= 75 && cancelled <= 100, `${cancelled} were cancelled`);
  });
}

Deno.test("a worker lost in mid-stream ends its streams with one error event; others go on and nothing is left", async () => {
  await using system = await LiveSystem.start({ lostGraceMs: 100 });
  const victim = await system.addMock({ itlMs: 2 }, ["victim"]);
  await system.addMock({ itlMs: 2 }, ["mock"]);
  const open = (model: string, tokens: number) =>
    system.post("/v1/chat/completions", chat(tokens, { model })).then(async (response) => {
      const reader = response.body!.getReader();
      return { reader, first: (await reader.read()).value! };
    });
  const lost = await Promise.all(Array.from({ length: 30 }, () => open("victim", 100_000)));
  const kept = await Promise.all(Array.from({ length: 30 }, () => open("mock", 300)));
  const killed = performance.now();
  await victim.node.transport.shutdown(0); // its sockets go without a word
  const texts = await Promise.all(lost.map(rest));
  assert(performance.now() - killed < 2_000);
  for (const text of texts) {
    const events = text.split("\n\n").filter((event) => event !== "");
    assertEquals(events.at(-1), "data: [DONE]");
    assertEquals(events.filter((event) => event.includes('"error"')).length, 1);
    assertEquals(JSON.parse(events.at(-2)!.slice(6)).error.code, "dropped");
  }
  for (const text of await Promise.all(kept.map(rest))) {
    const events = text.split("\n\n").filter((event) => event !== "");
    assertEquals([events.length, events.at(-1)], [303, "data: [DONE]"]);
  }
  await until(() => system.frontend.table.size === 1, "the worker to leave");
  const { data } = await (await fetch(`${system.base}/v1/models`)).json();
  assertEquals(data.map(({ id }: { id: string }) => id), ["mock"]);
  await system.quiet();
  assertEquals(system.outcomes(), { dropped: 30, ok: 30 });
});

/** Waits until the number of sockets stands still. */
async function settled(): Promise<void> {
  let last = -1;
  for (let same = 0; same < 10;) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    const now = openSockets();
    same = now === last ? same + 1 : 0;
    last = now;
  }
}

async function rest({ reader, first }: {
  readonly reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly first: Uint8Array;
}): Promise<string> {
  const parts = [first];
  for (let part = await reader.read(); !part.done; part = await reader.read()) parts.push(part.value);
  return new TextDecoder().decode(concat(parts));
}
