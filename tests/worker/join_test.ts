import { assert, assertEquals, assertMatch } from "@std/assert";
import { TokenplaneError } from "../../src/errors.ts";
import { createLogger } from "../../src/observe/log.ts";
import { Join, type JoinOptions } from "../../src/worker/join.ts";
import { PeerPreparation } from "../../src/worker/peer_preparation.ts";
import {
  instanceIdOf,
  peerInfoOf,
  ScriptedMessenger,
  type UnaryCall,
} from "../support/scripted_messenger.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const HOME = "127.0.0.1:7000";

/** Frontends by address; the number is the process that listens there, null when nobody does. */
type Network = Map<string, { process: number | null; shards?: string[]; interval?: unknown }>;

function setUp(options: Partial<JoinOptions> = {}) {
  const clock = new VirtualClock();
  const messenger = new ScriptedMessenger();
  const preparation = new PeerPreparation(messenger);
  const network: Network = new Map([[HOME, { process: 10 }]]);
  const times: number[] = [];
  messenger.answer = ({ to }: UnaryCall) => {
    times.push(clock.now());
    const node = network.get(to) ??
      [...network.values()].find(({ process }) => process !== null && instanceIdOf(process) === to);
    if (node === undefined || node.process === null) {
      throw new TokenplaneError("connection", "Cannot connect: refused");
    }
    const { instanceId, workerAddress } = peerInfoOf(node.process);
    return {
      peer_info: { instance_id: instanceId, worker_address: [...workerAddress] },
      shards: node.shards ?? [],
      join_interval_ms: node.interval ?? 2_000,
    };
  };
  const join = new Join({
    messenger,
    preparation,
    clock,
    frontends: [HOME],
    models: [{ id: "m", created: 1, ownedBy: "us" }],
    engine: "mock",
    capacity: 8,
    virtualWorkers: 1,
    random: () => 0.5,
    ...options,
  });
  const targets = () => messenger.calls.map(({ to }) => to);
  return { clock, messenger, preparation, network, join, targets, times };
}

Deno.test("Join offers the models by address, then over the standing connection at the frontend's interval", async () => {
  const { clock, join, messenger, targets, times } = setUp();
  join.start();
  await clock.advanceAsync(5_000);
  const id = instanceIdOf(10);
  assertEquals(targets(), [HOME, id, id, id]);
  assertEquals(times, [0, 0, 2_000, 4_000]);
  assertEquals(messenger.calls[0]!.handler, "_tp_join");
  assertEquals(messenger.calls[0]!.value, {
    peer_info: { instance_id: instanceIdOf(0), worker_address: [0x80] },
    models: [{ id: "m", created: 1, owned_by: "us" }],
    engine: "mock",
    capacity: 8,
    by_address: true,
  });
  assertEquals(Object.hasOwn(messenger.calls[1]!.value as object, "by_address"), false);
  assertEquals(messenger.registrations, [`+${id}`]);
  assertEquals(join.frontends, [{ address: HOME, joined: true }]);
  join.stop();
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("Join tries again with growing waits of at most 2 s until a frontend is there", async () => {
  const lines: string[] = [];
  const { clock, join, network, times } = setUp({ log: createLogger({ write: (line) => lines.push(line) }) });
  network.get(HOME)!.process = null;
  join.start();
  await clock.advanceAsync(8_000);
  assertEquals(lines.length, 1, "the first failure is told, and that it is tried again");
  assertMatch(lines[0]!, /warn {2}join_failed address=127\.0\.0\.1:7000 .* retry_ms=38\n$/);
  const waits = times.slice(1).map((time, i) => time - times[i]!);
  assertEquals(waits.slice(0, 7), [37.5, 75, 150, 300, 600, 1_200, 1_500]);
  assert(waits.slice(6).every((wait) => wait === 1_500));
  network.get(HOME)!.process = 10;
  await clock.advanceAsync(2_000);
  assertEquals(join.frontends, [{ address: HOME, joined: true }]);
  join.stop();
});

Deno.test("Join spreads its waits at random", async () => {
  const waits: number[] = [];
  for (const random of [0, 0.999]) {
    const { clock, join, network, times } = setUp({ random: () => random });
    network.get(HOME)!.process = null;
    join.start();
    await clock.advanceAsync(200);
    waits.push(times[1]! - times[0]!);
    join.stop();
  }
  assertEquals(waits[0], 25);
  assert(waits[1]! > 49 && waits[1]! <= 50);
});

Deno.test("Join goes back at once when a lane is lost, and prepares a restarted frontend anew", async () => {
  const { clock, join, messenger, network, targets } = setUp();
  join.start();
  await clock.advanceAsync(100);
  network.get(HOME)!.process = 11;
  messenger.calls.length = 0;
  for (let lane = 0; lane < 4; lane++) messenger.loseLane(instanceIdOf(10), lane);
  await clock.advanceAsync(0);
  assertEquals(targets()[0], HOME);
  assert(targets().length <= 3, `${targets().length} calls for four lost lanes`);
  assertEquals(messenger.registrations, [
    `+${instanceIdOf(10)}`,
    `+${instanceIdOf(11)}`,
    `-${instanceIdOf(10)}`,
  ]);
  join.stop();
});

Deno.test("Join goes back at once when the connection that a frontend speaks on is closed", async () => {
  const { clock, join, messenger, preparation } = setUp();
  join.start();
  await clock.advanceAsync(100);
  const peer = messenger.peer(instanceIdOf(10))!;
  preparation.prepare(peer.info, { workerId: peer.workerId, peer, connection: 5 });
  messenger.calls.length = 0;
  messenger.closeConnection(6);
  await clock.advanceAsync(0);
  assertEquals(messenger.calls.length, 0);
  messenger.closeConnection(5);
  await clock.advanceAsync(0);
  assertEquals(messenger.calls[0]!.to, HOME);
  join.stop();
});

Deno.test("Join notices at its interval that a frontend has gone silently", async () => {
  const { clock, join, network, targets } = setUp();
  join.start();
  await clock.advanceAsync(100);
  network.get(HOME)!.process = null;
  await clock.advanceAsync(2_000);
  assertEquals(join.frontends, [{ address: HOME, joined: false }]);
  network.get(HOME)!.process = 12;
  await clock.advanceAsync(2_000);
  assertEquals(join.frontends, [{ address: HOME, joined: true }]);
  assertEquals(targets().at(-1), instanceIdOf(12));
  join.stop();
});

Deno.test("Join joins every shard that a frontend names, and leaves those that it names no more", async () => {
  const { clock, join, messenger, network } = setUp();
  network.set("127.0.0.1:7001", { process: 20, shards: ["127.0.0.1:9"] });
  network.set("127.0.0.1:7002", { process: 21 });
  network.get(HOME)!.shards = [HOME, "127.0.0.1:7001", "127.0.0.1:7002"];
  join.start();
  await clock.advanceAsync(100);
  const addresses = () => join.frontends.filter(({ joined }) => joined).map(({ address }) => address);
  assertEquals(addresses(), [HOME, "127.0.0.1:7001", "127.0.0.1:7002"]);
  assertEquals(join.frontends.length, 3); // what a shard names is not followed
  network.get(HOME)!.shards = [HOME, "127.0.0.1:7001"];
  await clock.advanceAsync(2_000);
  assertEquals(addresses(), [HOME, "127.0.0.1:7001"]);
  assertEquals(messenger.registrations.at(-1), `-${instanceIdOf(21)}`);
  join.stop();
});

Deno.test("Join finds a shard named by its port alone at the host by which it came", async () => {
  const { clock, join, network } = setUp();
  network.set("127.0.0.1:7001", { process: 20 });
  network.get(HOME)!.shards = [":7000", ":7001"];
  join.start();
  await clock.advanceAsync(100);
  assertEquals(join.frontends, [{ address: HOME, joined: true }, {
    address: "127.0.0.1:7001",
    joined: true,
  }]);
  join.stop();
});

Deno.test("Join joins a node once, whichever of its addresses lead there", async () => {
  const given = "localhost:7000";
  const { clock, join, messenger, network } = setUp({ frontends: [given] });
  const shards = [HOME, "127.0.0.1:7001"];
  network.set(HOME, { process: 10, shards });
  network.set(given, { process: 10, shards });
  network.set("127.0.0.1:7001", { process: 20 });
  join.start();
  await clock.advanceAsync(100);
  const joined = [{ address: given, joined: true }, { address: "127.0.0.1:7001", joined: true }];
  assertEquals(join.frontends, joined);
  messenger.calls.length = 0;
  await clock.advanceAsync(10_000);
  const asked = messenger.calls.map(({ to }) => to);
  assertEquals(asked.filter((to) => to === instanceIdOf(10)).length, 5);
  assertEquals(asked.filter((to) => to === HOME || to === given), []);
  assertEquals(messenger.registrations, [`+${instanceIdOf(10)}`, `+${instanceIdOf(20)}`]);

  // Its place is taken by another process: the given address finds it, and stays the one.
  for (const address of [HOME, given]) network.get(address)!.process = 11;
  for (let lane = 0; lane < 4; lane++) messenger.loseLane(instanceIdOf(10), lane);
  await clock.advanceAsync(100);
  assertEquals(join.frontends, joined);
  assertEquals(messenger.registrations.slice(2).sort(), [`+${instanceIdOf(11)}`, `-${instanceIdOf(10)}`]);

  messenger.calls.length = 0;
  await join.leave(1_000);
  assertEquals(messenger.calls.map(({ to }) => to), [instanceIdOf(11), instanceIdOf(20)]);
  await clock.advanceAsync(10_000);
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("Join goes by the other address of a node when the first no longer leads there", async () => {
  const { clock, join, messenger, network } = setUp({ frontends: [HOME, "localhost:7000"] });
  network.set("localhost:7000", { process: 10 });
  join.start();
  await clock.advanceAsync(100);
  assertEquals(join.frontends, [{ address: HOME, joined: true }]);
  network.get(HOME)!.process = null;
  messenger.loseLane(instanceIdOf(10));
  await clock.advanceAsync(100);
  assertEquals(join.frontends, [{ address: HOME, joined: false }, {
    address: "localhost:7000",
    joined: true,
  }]);
  assertEquals(messenger.registrations, [`+${instanceIdOf(10)}`], "what runs there goes on");
  network.get(HOME)!.process = 11;
  await clock.advanceAsync(2_000);
  assertEquals(join.frontends, [{ address: HOME, joined: true }, {
    address: "localhost:7000",
    joined: true,
  }]);
  join.stop();
});

Deno.test("Join does not run hot at a frontend that answers by address and cannot be reached at its own", async () => {
  const { clock, join, messenger } = setUp();
  const answer = messenger.answer;
  messenger.answer = (call) => {
    if (call.to === HOME) return answer(call);
    messenger.loseLane(call.to);
    throw new TokenplaneError("connection", "Cannot connect: refused");
  };
  join.start();
  await clock.advanceAsync(10_000);
  assert(messenger.calls.length < 60, `${messenger.calls.length} calls in 10 s`);
  join.stop();

  const two = setUp({ frontends: [HOME, "localhost:7000"] });
  two.network.set("localhost:7000", { process: 10 });
  const answerBoth = two.messenger.answer;
  two.messenger.answer = (call) => {
    if (call.to !== instanceIdOf(10)) return answerBoth(call);
    two.messenger.loseLane(call.to);
    throw new TokenplaneError("connection", "Cannot connect: refused");
  };
  two.join.start();
  await two.clock.advanceAsync(10_000);
  assert(two.messenger.calls.length < 150, `${two.messenger.calls.length} calls in 10 s by two addresses`);
  two.join.stop();
});

Deno.test("Join takes no nonsense for an answer", async (t) => {
  const info = { instance_id: instanceIdOf(10), worker_address: [0x80] };
  const answers: [string, unknown][] = [
    ["null", null],
    ["no peer info", {}],
    ["a bad instance id", { peer_info: { ...info, instance_id: "x" } }],
    ["shards of another type", { peer_info: info, shards: [5] }],
    ["too many shards", { peer_info: info, shards: new Array(257).fill("a:1") }],
    ["an interval of 0", { peer_info: info, join_interval_ms: 0 }],
    ["an interval that is no number", { peer_info: info, join_interval_ms: "5" }],
  ];
  for (const [name, answer] of answers) {
    await t.step(name, async () => {
      const { clock, join, messenger } = setUp();
      messenger.answer = () => answer;
      join.start();
      await clock.advanceAsync(1_000);
      assertEquals(join.frontends, [{ address: HOME, joined: false }]);
      assertEquals(messenger.registrations, []);
      join.stop();
    });
  }
});

Deno.test("Join bounds the interval that a frontend asks for", async () => {
  for (const [interval, calls] of [[1, 12], [1e9, 2]] as const) {
    const { clock, join, messenger, network } = setUp();
    network.get(HOME)!.interval = interval;
    join.start();
    await clock.advanceAsync(1_000);
    assertEquals(messenger.calls.length, calls);
    join.stop();
  }
});

Deno.test("Join tells every frontend when it leaves, and does not come back", async () => {
  const { clock, join, messenger } = setUp();
  join.start();
  await clock.advanceAsync(100);
  messenger.calls.length = 0;
  await join.leave(1_000);
  messenger.loseLane(instanceIdOf(10));
  await clock.advanceAsync(10_000);
  assertEquals(messenger.calls.map(({ handler, to }) => [handler, to]), [["_tp_leave", instanceIdOf(10)]]);
  assertEquals(clock.pendingTimers, 0);
});

Deno.test("Join leaves although a frontend does not answer", async () => {
  const { clock, join, messenger } = setUp();
  join.start();
  await clock.advanceAsync(100);
  messenger.answer = () => {
    throw new TokenplaneError("timeout", "Cannot call: no answer");
  };
  await join.leave(10);
  join.stop();
  assertEquals(clock.pendingTimers, 0);
});
