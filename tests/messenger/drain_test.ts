import { assertEquals, assertRejects } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { isExemptFromDrain } from "../../src/messenger/drain_gate.ts";
import { encodeRequestHeader } from "../../src/messenger/envelope.ts";
import { MessengerNet } from "../support/messenger_net.ts";

Deno.test("isExemptFromDrain lets through what running streams need", () => {
  const cases: [string, boolean][] = [
    ["_stream_batch", true],
    ["_stream_stop", true],
    ["_stream_cancel", true],
    ["_rv_pull", true],
    ["_anchor_attach", true],
    ["_stream_batches", false],
    ["_stream", false],
    ["_hello", false],
    ["generate", false],
    ["x_rv_pull", false],
  ];
  for (const [name, expected] of cases) {
    assertEquals(isExemptFromDrain(encodeRequestHeader(0, name)), expected, name);
  }
  for (
    const broken of [
      new Uint8Array(0),
      new Uint8Array(19),
      encodeRequestHeader(0, "_rv_pull").subarray(0, 22),
    ]
  ) {
    assertEquals(isExemptFromDrain(broken), false);
  }
});

Deno.test("Messenger.beginDrain refuses requests at once and lets streams go on", async () => {
  const net = new MessengerNet();
  const [a, b] = await net.pair();
  const seen: string[] = [];
  b.handleJson("_work", () => void seen.push("work"));
  b.handleOneWay("_stream_batch", () => void seen.push("batch"));
  a.handleJson("_echo", (input) => input);
  b.beginDrain();
  b.beginDrain();
  const error = await assertRejects(
    () => net.run(a.requestJson(b.instanceId, "_work", null, 5_000)),
    TokenplaneError,
  );
  assertEquals([error.code, error.message], ["unavailable", "Request rejected: peer is shutting down"]);
  a.sendOneWay(b.instanceId, 0, "_stream_batch", []);
  a.sendJson(b.instanceId, "_work", null);
  assertEquals(
    await net.run(b.requestJson(a.instanceId, "_echo", 7, 5_000)),
    7,
    "its own requests still work",
  );
  await net.pass();
  assertEquals([seen, a.stats.refusedByPeer], [["batch"], 2]);
  await net.close();
});

Deno.test("Messenger.shutdown waits for handlers in flight and sends their answers", async () => {
  const net = new MessengerNet();
  const [a, b] = await net.pair();
  b.handleJson("_slow", () => new Promise((resolve) => void net.clock.setTimer(() => resolve("late"), 500)));
  const call = a.requestJson(b.instanceId, "_slow", null, 5_000);
  await net.pass();
  const shutdown = b.shutdown(2_000);
  assertEquals(await net.run(call), "late");
  await net.run(Promise.all([shutdown, b.shutdown(1)]));
  const error = await assertRejects(
    () => net.run(b.requestJson(a.instanceId, "_x", null, 100)),
    TokenplaneError,
  );
  assertEquals(["closed", "connection"].includes(error.code), true, error.code);
  await net.close();
});

Deno.test("Messenger.shutdown does not wait for ever for a handler that hangs", async () => {
  const net = new MessengerNet();
  const [a, b] = await net.pair();
  b.handleJson("_hang", () => new Promise(() => {}));
  const call = a.requestJson(b.instanceId, "_hang", null, 60_000);
  call.catch(() => {});
  await net.pass();
  const begun = net.clock.now();
  await net.run(b.shutdown(1_000));
  assertEquals(net.clock.now() - begun <= 1_001, true);
  assertEquals((await assertRejects(() => net.run(call), TokenplaneError)).code, "connection");
  await net.close();
});
