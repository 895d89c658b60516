import { assert, assertEquals } from "@std/assert";
import { encodeRequestMessage, GENERATE_HANDLER } from "../../src/plane/request_message.ts";
import { MockEngine } from "../../src/worker/engines/mock.ts";
import { WorkerNode } from "../../src/worker/node.ts";
import { instanceIdOf, peerInfoOf, ScriptedMessenger, workerIdOf } from "../support/scripted_messenger.ts";
import { RecordingPlane } from "../support/recording_plane.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

function setUp() {
  const clock = new VirtualClock();
  const messenger = new ScriptedMessenger();
  const plane = new RecordingPlane();
  const engine = new MockEngine({ clock, ttftMs: 100, itlMs: 20, onStep: () => plane.flushBatch() });
  messenger.answer = () => ({
    peer_info: { instance_id: instanceIdOf(10), worker_address: [0x80] },
    shards: [],
    join_interval_ms: 2_000,
  });
  const node = new WorkerNode({
    messenger,
    plane,
    engine,
    clock,
    frontends: ["127.0.0.1:7000"],
    models: [{ id: "mock", created: 0, ownedBy: "tokenplane" }],
    maxRunning: 8,
  });
  const send = (tokens: number) =>
    messenger.deliver(
      GENERATE_HANDLER,
      encodeRequestMessage({
        id: "r",
        path: "/v1/chat/completions",
        model: "mock",
        stream: true,
        ticket: {
          handle: { hi: workerIdOf(instanceIdOf(10)), lo: 1n },
          routingSessionId: 1n,
          initialCredit: 32,
          slotByteBudget: 0,
          heartbeatIntervalMs: 5_000,
          lanes: 1,
          freeBeats: true,
          peer: peerInfoOf(10),
        },
        headers: {},
        body: new TextEncoder().encode(
          JSON.stringify({ messages: [{ role: "user", content: "Hi" }], max_tokens: tokens, stream: true }),
        ),
      }),
      10,
    );
  return { clock, messenger, plane, engine, node, send };
}

Deno.test("WorkerNode joins, serves and says so", async () => {
  const { clock, node, plane, send } = setUp();
  assertEquals(node.status.state, "created");
  node.start();
  await clock.advanceAsync(10);
  send(3);
  assertEquals([node.status.state, node.status.inFlight], ["serving", 1]);
  assertEquals(node.status.frontends, [{ address: "127.0.0.1:7000", joined: true }]);
  await clock.advanceAsync(140);
  assertEquals(plane.senders[0]!.items.at(-1), "finalized");
  assertEquals(plane.senders[0]!.items.length, 1 + 1 + 3 + 1 + 2); // head, role, tokens, tail, summary and end
  assertEquals(plane.flushes, 3);
  assertEquals([node.status.stats.outcomes.ok, node.status.inFlight], [1, 0]);
  await node.close();
});

Deno.test("WorkerNode drains: leaves, refuses, finishes what runs", async () => {
  const { clock, messenger, node, plane, send } = setUp();
  node.start();
  await clock.advanceAsync(10);
  send(3);
  const drained = node.drain(10_000);
  let threw = false;
  try {
    send(3);
  } catch {
    threw = true;
  }
  assert(threw);
  await clock.advanceAsync(150);
  assertEquals(await drained, true);
  assertEquals(messenger.calls.at(-1)!.handler, "_tp_leave");
  assertEquals(messenger.isDraining, true);
  assertEquals(node.status.state, "draining");
  assertEquals(plane.senders[0]!.items.at(-1), "finalized");
  await node.close();
  assertEquals([plane.isClosed, messenger.isShutDown], [true, true]);
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("WorkerNode cuts what outlasts the drain", async () => {
  const { clock, engine, node, plane, send } = setUp();
  node.start();
  await clock.advanceAsync(10);
  send(1_000);
  const drained = node.drain(500);
  await clock.advanceAsync(520);
  assertEquals(await drained, false);
  assertEquals((plane.senders[0]!.items.at(-2) as { outcome: string }).outcome, "truncated");
  assertEquals([engine.running, node.status.stats.outcomes.truncated], [0, 1]);
  await node.close();
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("WorkerNode closes once, with everything that runs", async () => {
  const { clock, engine, messenger, node, plane, send } = setUp();
  node.start();
  await clock.advanceAsync(10);
  send(100);
  await Promise.all([node.close(), node.close()]);
  assertEquals(node.status.state, "closed");
  assertEquals([engine.running, node.status.inFlight], [0, 0]);
  assertEquals([plane.isClosed, messenger.isShutDown], [true, true]);
  assertEquals(plane.senders[0]!.items.at(-1), "finalized");
  await clock.advanceAsync(10_000);
  assertEquals(clock.pendingTimers, 0);
});
