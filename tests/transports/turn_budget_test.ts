import { assert, assertEquals } from "@std/assert";
import { systemClock } from "../../src/clock.ts";
import { MessageType } from "../../transports/contract.ts";
import { encodeFrame } from "../../transports/tcp/frame.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { TurnBudget } from "../../transports/tcp/turn_budget.ts";

Deno.test("TurnBudget lets readers go on until the turn is used up, then holds all of them to the next", async () => {
  const deferred: (() => void)[] = [];
  const turns = new TurnBudget({ defer: (callback) => void deferred.push(callback) }, 10);
  const spend = (ms: number) => {
    turns.count(ms);
    return turns.next();
  };
  assertEquals(spend(4), null);
  assertEquals(deferred.length, 0, "little work costs nothing");
  assertEquals(spend(5), null);
  const turn = spend(1);
  assert(turn !== null);
  assertEquals(spend(1), turn, "another reader waits for the same turn");
  assertEquals(deferred.length, 1);
  deferred[0]!();
  await turn;
  assertEquals(spend(9), null, "a new turn has a whole budget");
});

Deno.test("TcpTransport reads a backlog without keeping timers from running", async () => {
  let sinceTick = 0;
  let most = 0;
  let reads = 0;
  let bytes = 0;
  const transport = new TcpTransport();
  await transport.start({
    onFrame: (_connection, _type, header, payload) => void (bytes += header.length + payload.length),
    onReadEnd() {
      reads++;
      most = Math.max(most, ++sinceTick);
      const end = performance.now() + 6; // what some thousand tokens take
      while (performance.now() < end);
    },
    onInboundClosed() {},
    onLaneLost() {},
    onShuttingDown() {},
  });
  const frame = encodeFrame(MessageType.event, new Uint8Array(0), new Uint8Array(65_000));
  const timer = setInterval(() => sinceTick = 0, 1);
  const client = await Deno.connect(transport.address);
  const frames = 160;
  for (let i = 0; i < frames; i++) {
    for (let at = 0; at < frame.length;) at += await client.write(frame.subarray(at));
  }
  while (bytes < frames * 65_000) await new Promise((resolve) => setTimeout(resolve, 1));
  clearInterval(timer);
  client.close();
  await transport.shutdown(1_000);
  assert(reads >= 10, `${reads} reads`);
  assert(most <= 4, `${most} reads of 6 ms passed between two turns`);
});

Deno.test("TurnBudget gives readers their next turn by the system's clock", async () => {
  const turns = new TurnBudget(systemClock, 10);
  for (let i = 0; i < 3; i++) {
    turns.count(10);
    const turn = turns.next();
    assert(turn !== null, `turn ${i}`);
    await turn;
  }
});
