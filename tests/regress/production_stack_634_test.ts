/**
 * vllm-project/production-stack#634 and BerriAI/litellm#30244, at the client's end: the client pressed stop and the worker
 * went on. Fails when a worker is not told within 200 ms that its client left, streamed or not, when a client that leaves
 * behind the last byte counts as lost, or when requests or descriptors are left behind.
 */
import { assert, assertEquals } from "@std/assert";
import { type FrontendHarness, rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

/** A client comes and leaves; resolves to how long the worker was not told, ms. */
async function leave(harness: FrontendHarness, stream: boolean, when: "a" | "b" | "d"): Promise<number> {
  const client = await RawClient.connect(harness.port);
  client.send(rawChat({ stream }));
  const held = await harness.nextStream();
  if (when !== "a") {
    held.head(200, stream ? "text/event-stream" : "application/json").data("data: 1\n\n").flush();
    if (stream) await client.until((text) => text.includes("data: 1"));
  }
  const before = performance.now();
  if (when === "d") client.socket.resetAndDestroy();
  else client.socket.destroy();
  await until(() => held.cancelled !== null, "the worker is told");
  const took = performance.now() - before;
  await client.closed();
  return took;
}

for (const stream of [true, false]) {
  Deno.test(`Frontend tells the worker of each client that leaves, ${stream ? "streamed" : "whole"}`, () =>
    withFrontend({}, async (harness) => {
      for (const when of ["a", "b", "d"] as const) assert(await leave(harness, stream, when) < 200);
      await until(() => harness.node.openRequests === 0, "no open request");
      assertEquals(harness.outcomes(), { cancelled: 3 });
    }));
}

Deno.test("Frontend counts a client that leaves between the last event and [DONE] by what it was sent", () =>
  withFrontend({}, async (harness) => {
    const client = await RawClient.connect(harness.port);
    client.send(rawChat());
    const stream = await harness.nextStream();
    stream.head().data("data: 1\n\n").flush();
    await client.until((text) => text.includes("data: 1"));
    client.socket.destroy();
    stream.data("data: [DONE]\n\n").finish().flush();
    await until(() => harness.node.openRequests === 0, "no open request");
    assertEquals(harness.outcomes(), { ok: 1 });
    await client.closed();
  }));

Deno.test("Frontend holds no descriptor of 300 clients that left", () =>
  withFrontend({}, async (harness) => {
    const count = () => [...Deno.readDirSync("/proc/self/fd")].length;
    await leave(harness, true, "b");
    await until(() => harness.node.openRequests === 0, "no open request");
    const before = count();
    for (let i = 0; i < 300; i++) await leave(harness, i % 2 === 0, (["a", "b", "d"] as const)[i % 3]!);
    await until(() => harness.node.openRequests === 0, "no open request");
    await until(() => count() <= before + 5, "descriptors are closed");
    assertEquals(harness.node.stats.live + harness.node.stats.queued, 0);
  }));
