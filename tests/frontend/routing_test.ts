import { assertEquals } from "@std/assert";
import type { FrontendOptions } from "../../src/frontend/options.ts";
import { FrontendHarness } from "../support/frontend_harness.ts";
import { instanceIdOf } from "../support/scripted_messenger.ts";

const HEADER = "x-tokenplane-worker";

async function withWorkers(
  options: Partial<FrontendOptions>,
  test: (harness: FrontendHarness) => Promise<void>,
): Promise<void> {
  const harness = await new FrontendHarness(options).start();
  harness.join(1);
  harness.join(2, ["m"], { virtual_workers: 3 });
  try {
    await test(harness);
  } finally {
    await harness.close();
  }
}

/** A whole request; answers with its status and the worker that the response names. */
async function ask(
  harness: FrontendHarness,
  fields: Record<string, unknown> = {},
  wanted?: string,
): Promise<[number, string | null]> {
  const headers: Record<string, string> = { "content-type": "application/json" };
  if (wanted !== undefined) headers[HEADER] = wanted;
  const answer = harness.post(fields, { headers });
  const refused = answer.then((response) => response.status !== 200);
  const stream = harness.nextStream().then((stream) => {
    stream.head().data("data: [DONE]\n\n").end();
    return false;
  });
  await Promise.race([refused, stream]);
  const response = await answer;
  await response.body?.cancel();
  return [response.status, response.headers.get(HEADER)];
}

Deno.test("Frontend names the worker that answers, and tells it which of its logical workers is meant", () =>
  withWorkers({ routerMode: "round-robin" }, async (harness) => {
    const names = [];
    for (let i = 0; i < 4; i++) names.push((await ask(harness))[1]);
    assertEquals(names, [instanceIdOf(1), ...[0, 1, 2].map((index) => `${instanceIdOf(2)}/${index}`)]);
    assertEquals(harness.requests.map((request) => request.virtualWorker), [undefined, 0, 1, 2]);
  }));

Deno.test("Frontend in direct mode asks the worker that the client names, and no other", () =>
  withWorkers({ routerMode: "direct" }, async (harness) => {
    for (const name of [instanceIdOf(1), `${instanceIdOf(2)}/2`]) {
      assertEquals(await ask(harness, {}, name), [200, name]);
    }
    assertEquals((await ask(harness, {}, instanceIdOf(2)))[1], `${instanceIdOf(2)}/0`);
    assertEquals(await ask(harness, {}, "nobody"), [503, null]);
    assertEquals(await ask(harness), [400, null]);
  }));

Deno.test("Frontend in kv mode sends equal prompts to the worker that was sent them before", () =>
  withWorkers({ routerMode: "kv", kvBlockSize: 4 }, async (harness) => {
    const first = await ask(harness, { messages: [{ role: "user", content: "a long prompt ".repeat(20) }] });
    for (let i = 0; i < 5; i++) {
      const content = "a long prompt ".repeat(20) + i;
      assertEquals(await ask(harness, { messages: [{ role: "user", content }] }), first);
    }
    assertEquals(harness.node.routing.router.policy.stats!.overlapBlocks > 300, true);
  }));
