import { assert, assertEquals } from "@std/assert";
import { MessageType } from "../../transports/contract.ts";
import { encodeFrame } from "../../transports/tcp/frame.ts";
import { ReadEnds } from "../../transports/tcp/read_ends.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { TurnBudget } from "../../transports/tcp/turn_budget.ts";
import { until } from "../support/until.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

Deno.test("ReadEnds tells once for the reads of one turn, and counts what that took", async () => {
  const turns = new TurnBudget(new VirtualClock(), 10);
  let now = 0;
  let told = 0;
  const tell = () => {
    told++;
    now += 6;
  };
  const ends = new ReadEnds(tell, turns, () => now);
  await Promise.all([ends.note(), ends.note(), ends.note()]);
  assertEquals(told, 1);
  turns.count(3);
  assertEquals(turns.next(), null);
  await ends.note();
  assertEquals(told, 2);
  assert(turns.next() !== null, "over ten milliseconds were used");
});

Deno.test("TcpTransport tells one end for what several connections bring at once", async () => {
  let frames = 0;
  let ends = 0;
  let blocked = true;
  const transport = new TcpTransport();
  await transport.start({
    onFrame: () => void frames++,
    onReadEnd() {
      ends++;
      // The first end takes long enough for the bytes of all others to be there when it is over.
      const end = performance.now() + 50;
      while (blocked && performance.now() < end);
      blocked = false;
    },
    onInboundClosed() {},
    onLaneLost() {},
    onShuttingDown() {},
  });
  const frame = encodeFrame(MessageType.event, new Uint8Array(0), new Uint8Array(100));
  const clients = await Promise.all([1, 2, 3, 4, 5].map(() => Deno.connect(transport.address)));
  // All of them have been accepted: each has brought a frame.
  for (const client of clients) await client.write(frame);
  await until(() => frames === 5, "the first frames are here");
  ends = 0;
  blocked = true;
  await Promise.all(clients.map((client) => client.write(frame)));
  await until(() => frames === 10, "the second frames are here");
  assert(ends < 5, `${ends} ends for 5 connections`);
  for (const client of clients) client.close();
  await transport.shutdown(1_000);
});

Deno.test("TcpTransport reports a sink whose onReadEnd throws, and keeps its connections", async () => {
  const bugs: unknown[] = [];
  let frames = 0;
  let closed = 0;
  const transport = new TcpTransport({ onBug: (caught) => void bugs.push(caught) });
  await transport.start({
    onFrame: () => void frames++,
    onReadEnd() {
      throw new Error("no end");
    },
    onInboundClosed: () => void closed++,
    onLaneLost() {},
    onShuttingDown() {},
  });
  const frame = encodeFrame(MessageType.event, new Uint8Array(0), new Uint8Array(100));
  const client = await Deno.connect(transport.address);
  for (let round = 1; round <= 2; round++) {
    await client.write(frame);
    await until(
      () => frames === round && bugs.length === round,
      `frame ${round} is here and its end reported`,
    );
  }
  assertEquals([closed, (bugs[0] as Error).message], [0, "no end"]);
  client.close();
  await transport.shutdown(1_000);
});
