import { assertEquals, assertThrows } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { FrontendHarness } from "../support/frontend_harness.ts";
import { instanceIdOf } from "../support/scripted_messenger.ts";
import { VirtualClock } from "../support/virtual_clock.ts";
import { until } from "../support/until.ts";

function setUp(): { clock: VirtualClock; harness: FrontendHarness } {
  const clock = new VirtualClock();
  return {
    clock,
    harness: new FrontendHarness({}, { clock, shards: () => ["127.0.0.1:7000", "127.0.0.1:7001"] }),
  };
}

const message = (fields: Record<string, unknown> = {}) => ({
  peer_info: { instance_id: instanceIdOf(1), worker_address: [0x80] },
  models: [{ id: "m", created: 1, owned_by: "o" }],
  engine: "mock",
  capacity: 8,
  ...fields,
});

Deno.test("Join answers with this node, all shards and the interval, and registers the worker", () => {
  const { harness } = setUp();
  assertEquals(harness.messenger.call("_tp_join", message()), {
    peer_info: { instance_id: harness.messenger.instanceId, worker_address: [0x80] },
    shards: ["127.0.0.1:7000", "127.0.0.1:7001"],
    join_interval_ms: 2_000,
  });
  const worker = harness.node.table.worker(instanceIdOf(1))!;
  assertEquals(worker.info.models, [{ id: "m", created: 1, ownedBy: "o" }]);
  assertEquals([worker.info.capacity, worker.virtual.length], [8, 1]);
  assertEquals(harness.messenger.peers.has(instanceIdOf(1)), true);
  harness.node.table.close();
});

const HOSTILE: readonly (readonly [string, unknown])[] = [
  ["no object", "x"],
  ["null", null],
  ["no peer info", message({ peer_info: undefined })],
  ["an instance id that is none", message({ peer_info: { instance_id: "x", worker_address: [0x80] } })],
  [
    "an address that is none",
    message({ peer_info: { instance_id: instanceIdOf(1), worker_address: [256] } }),
  ],
  ["models that are text", message({ models: "m" })],
  ["too many models", message({ models: Array.from({ length: 257 }, (_, i) => ({ id: `${i}` })) })],
  ["a model without a name", message({ models: [{}] })],
  ["a model with a long name", message({ models: [{ id: "x".repeat(257) }] })],
  ["a model with a control in its name", message({ models: [{ id: "a\nb" }] })],
  ["a model from before time", message({ models: [{ id: "a", created: -1 }] })],
  ["an owner that is a number", message({ models: [{ id: "a", owned_by: 1 }] })],
  ["an engine that is a list", message({ engine: [] })],
  ["half a capacity", message({ capacity: 0.5 })],
  ["a capacity without end", message({ capacity: 1e9 })],
  ["no virtual worker", message({ virtual_workers: 0 })],
  ["too many virtual workers", message({ virtual_workers: 1_025 })],
];

for (const [name, input] of HOSTILE) {
  Deno.test(`Join refuses ${name}`, () => {
    const { harness } = setUp();
    assertThrows(() => harness.messenger.call("_tp_join", input), TokenplaneError);
    assertEquals(harness.node.table.size, 0);
    assertEquals(harness.messenger.peers.size, 0);
  });
}

Deno.test("Join refuses a worker that speaks for another", () => {
  const { harness } = setUp();
  harness.join(2);
  const peer = harness.messenger.peer(instanceIdOf(2))!;
  assertThrows(
    () => harness.messenger.call("_tp_join", message(), { peer }),
    TokenplaneError,
    "not that of the sender",
  );
  harness.node.table.close();
});

Deno.test("Leave takes only the worker that says it out of use", () => {
  const { clock, harness } = setUp();
  harness.join(1);
  harness.join(2);
  harness.messenger.call("_tp_leave", { instance_id: instanceIdOf(2) });
  assertEquals(harness.node.table.serving("m").length, 2);
  harness.messenger.call("_tp_leave", {}, { peer: harness.messenger.peer(instanceIdOf(1))! });
  assertEquals(harness.node.table.serving("m").map((worker) => worker.instanceId), [instanceIdOf(2)]);
  clock.advance(2_000);
  assertEquals(harness.messenger.peers.has(instanceIdOf(1)), false);
  harness.node.table.close();
});

Deno.test("A worker that lost a lane is out of use until it has answered", async () => {
  const { harness } = setUp();
  harness.join(1);
  const asked: string[] = [];
  harness.messenger.answer = ({ handler }) => {
    asked.push(handler);
    return Promise.reject(new TokenplaneError("handler_not_found", "x"));
  };
  harness.messenger.loseLane(instanceIdOf(1), 2);
  const worker = harness.node.table.worker(instanceIdOf(1))!;
  assertEquals([worker.state, harness.node.table.isServing], ["lost", false]);
  await until(() => worker.state === "ready", "the worker is back");
  assertEquals(asked, ["_list_handlers"]);
  harness.node.table.close();
});

Deno.test("A worker that lost a lane and does not answer leaves within the grace", async () => {
  const { clock, harness } = setUp();
  harness.join(1);
  harness.messenger.answer = () => Promise.reject(new TokenplaneError("connection", "refused"));
  harness.messenger.loseLane(instanceIdOf(1));
  await Promise.resolve();
  assertEquals(harness.node.table.isServing, false);
  clock.advance(600);
  assertEquals([harness.node.table.size, harness.messenger.peers.size, clock.pendingTimers], [0, 0, 0]);
});

Deno.test("A worker whose standing connection closes is asked; that of its first join means nothing", async () => {
  const { harness } = setUp();
  harness.messenger.call("_tp_join", message(), { connection: 5 });
  harness.messenger.closeConnection(5);
  const worker = harness.node.table.worker(instanceIdOf(1))!;
  assertEquals(worker.state, "ready");
  // Known by now, and by another address, or again after a lost lane: still a connection for the join alone.
  harness.messenger.call("_tp_join", message({ by_address: true }), {
    connection: 7,
    peer: harness.messenger.peer(instanceIdOf(1))!,
  });
  harness.messenger.closeConnection(7);
  assertEquals(worker.state, "ready");
  harness.messenger.call("_tp_join", message(), {
    connection: 6,
    peer: harness.messenger.peer(instanceIdOf(1))!,
  });
  harness.messenger.closeConnection(6);
  assertEquals(worker.state, "lost");
  await until(() => worker.state === "ready", "the worker is back");
  harness.messenger.closeConnection(6);
  assertEquals(worker.state, "ready");
  harness.node.table.close();
});
