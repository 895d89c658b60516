/** The faults that the in-memory network makes on demand. */
import { assert, assertEquals } from "@std/assert";
import { MemoryNetwork, type MemoryNetworkOptions } from "../../transports/memory/memory_network.ts";
import type { MemoryTransport } from "../../transports/memory/memory_transport.ts";
import { numbered, numberIn, RecordingSink } from "../contract/transport_harness.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const HEADER = new Uint8Array(1);

interface Net {
  clock: VirtualClock;
  network: MemoryNetwork;
  a: MemoryTransport;
  b: MemoryTransport;
  sinkA: RecordingSink;
  sinkB: RecordingSink;
}

async function pair(options: Omit<MemoryNetworkOptions, "clock"> = {}): Promise<Net> {
  const clock = new VirtualClock();
  const network = new MemoryNetwork({ clock, ...options });
  const [a, b] = [network.transport({ name: "a" }), network.transport({ name: "b" })];
  const [sinkA, sinkB] = [new RecordingSink(), new RecordingSink()];
  await a.start(sinkA);
  await b.start(sinkB);
  a.register("b", b.addressEntry());
  b.register("a", a.addressEntry());
  return { clock, network, a, b, sinkA, sinkB };
}

function numbersAt(sink: RecordingSink): number[] {
  return sink.frames.map((frame) => numberIn(frame.payload));
}

Deno.test("MemoryNetwork delays each burst and never reorders a connection", async () => {
  const { clock, a, sinkB } = await pair({ delayMs: 10, jitterMs: 50, seed: 3 });
  const arrivals: number[] = [];
  sinkB.onEachFrame = () => arrivals.push(clock.now());
  for (let i = 0; i < 40; i++) {
    a.send("b", 0, 0, HEADER, [numbered(i)]);
    clock.advance(3);
  }
  clock.advance(200);
  assertEquals(numbersAt(sinkB), Array.from({ length: 40 }, (_, i) => i));
  assert(arrivals[0]! >= 20, "dialling and delivery take one delay each");
  assert(new Set(arrivals.map((at, i) => Math.round(at - 3 * i))).size > 5, "jitter");
});

Deno.test("MemoryNetwork.cut loses what is on the way, or a part of it that the seed chooses", async () => {
  const outcomes = new Set<number>();
  for (let seed = 0; seed < 20; seed++) {
    const run = async (): Promise<number[]> => {
      const { clock, network, a, sinkA, sinkB } = await pair({ delayMs: 5, seed });
      a.send("b", 1, 0, HEADER, [numbered(0)]);
      clock.advance(20);
      for (let i = 1; i <= 10; i++) a.send("b", 1, 0, HEADER, [numbered(i)]);
      clock.advance(1);
      assertEquals(network.cut({ from: "a", lane: 0 }), 0);
      assertEquals(network.cut({ from: "a", to: "b", lane: 1 }, "some"), 1);
      assertEquals([sinkA.lost.map((loss) => loss.lane), sinkB.closed.length], [[1], 1]);
      clock.advance(100);
      return numbersAt(sinkB);
    };
    const seen = await run();
    assertEquals(seen, Array.from({ length: seen.length }, (_, i) => i), "a prefix");
    assertEquals(await run(), seen, "the same seed, the same loss");
    outcomes.add(seen.length);
  }
  assert(outcomes.size > 4, `${outcomes.size} different outcomes`);
});

Deno.test("MemoryNetwork.partition stops frames without losing them, and fails dialling", async () => {
  const { clock, network, a, b, sinkA, sinkB } = await pair();
  a.send("b", 0, 0, HEADER, [numbered(1)]);
  clock.advance(10);
  network.partition("a", "b");
  a.send("b", 0, 0, HEADER, [numbered(2)]);
  b.send("a", 0, 0, HEADER, [numbered(3)]);
  clock.advance(4_990);
  assertEquals([numbersAt(sinkB), sinkA.lost.length, sinkB.lost.length], [[1], 0, 0]);
  clock.advance(1_000);
  assertEquals([sinkA.lost.length, sinkB.lost.length], [0, 1], "only dialling gives up");
  network.heal();
  b.send("a", 0, 0, HEADER, [numbered(4)]);
  clock.advance(10);
  assertEquals([numbersAt(sinkB), numbersAt(sinkA)], [[1, 2], [4]]);
});

Deno.test("MemoryNetwork.pause fills wire and queue, then admission waits; resume lets all through", async () => {
  const { clock, network, a, sinkB } = await pair({ queueFrames: 4, wireBytes: 100 });
  a.send("b", 0, 0, HEADER, [numbered(0)]);
  clock.advance(10);
  network.pause({ to: "b", lane: 0 });
  let admitted = 0;
  for (let i = 1; i <= 100; i++) {
    if (a.send("b", 0, 0, HEADER, [numbered(i)], () => admitted++)) admitted++;
    clock.advance(1);
  }
  assertEquals([sinkB.frames.length, admitted], [1, 24], "20 frames of 5 bytes on the wire, 4 in the queue");
  a.send("b", 1, 0, HEADER, [numbered(500)]);
  clock.advance(10);
  assertEquals(numbersAt(sinkB).at(-1), 500);
  network.resume({ to: "b" });
  clock.advance(100);
  assertEquals([sinkB.frames.length, admitted], [102, 100]);
});

Deno.test("MemoryNetwork.kill ends a node for the others and tells itself nothing", async () => {
  const { clock, network, a, b, sinkA, sinkB } = await pair();
  a.send("b", 0, 0, HEADER, [numbered(1)]);
  b.send("a", 2, 0, HEADER, [numbered(2)]);
  clock.advance(10);
  network.kill("b");
  assertEquals([sinkA.lost.length, sinkA.closed.length], [1, 1]);
  assertEquals([sinkB.lost.length, sinkB.closed.length], [0, 0]);
  a.send("b", 0, 0, HEADER, [numbered(3)]);
  clock.advance(10);
  assertEquals([sinkA.lost.length, sinkB.frames.length], [2, 1]);
});

Deno.test("MemoryTransport spoils a view that was kept beyond the call", async () => {
  const { clock, a, b, sinkB } = await pair();
  let kept = new Uint8Array(0);
  sinkB.onFrame = (_from, _type, _header, payload) => {
    kept = payload as Uint8Array<ArrayBuffer>;
  };
  a.send("b", 0, 0, HEADER, [numbered(1)]);
  clock.advance(10);
  assertEquals([...kept], [0xee, 0xee, 0xee, 0xee]);
  const shutdown = b.shutdown(0);
  await clock.runUntilIdleAsync();
  await shutdown;
});
