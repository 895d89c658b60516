/**
 * denoland/deno#27005: a request's signal fired although its response had been sent whole, so a server that tied its
 * upstream's cancellation to it cancelled everything it had served. Fails when a worker is told to stop for a request
 * that completed, or is not told for a client that left.
 */
import { assertEquals } from "@std/assert";
import { rawChat, RawClient, withFrontend } from "../support/frontend_harness.ts";
import { until } from "../support/until.ts";

Deno.test("Frontend cancels 0 of 100 requests that complete and 100 of 100 whose client leaves", () =>
  withFrontend({}, async (harness) => {
    for (let i = 0; i < 100; i++) {
      const pending = harness.post();
      (await harness.nextStream()).head().data("data: 1\n\n").data("data: [DONE]\n\n").finish().flush();
      await (await pending).text();
    }
    await until(() => harness.node.openRequests === 0, "no open request");
    assertEquals(harness.plane.streams.filter((stream) => stream.cancelled !== null).length, 0);
    assertEquals(harness.outcomes(), { ok: 100 });

    for (let i = 0; i < 100; i++) {
      const client = await RawClient.connect(harness.port);
      client.send(rawChat());
      (await harness.nextStream()).head().data("data: 1\n\n").flush();
      await client.until((text) => text.includes("data: 1"));
      await client.close();
    }
    await until(() => harness.node.openRequests === 0, "no open request");
    assertEquals(harness.plane.streams.filter((stream) => stream.cancelled !== null).length, 100);
    assertEquals(harness.outcomes(), { ok: 100, cancelled: 100 });
  }));
