/** The mux plane over the in-memory network, in virtual time, calm and with jitter. */
import { assert, assertEquals } from "@std/assert";
import type { MuxOptions } from "../../src/mux/options.ts";
import { MemoryNetwork } from "../../transports/memory/memory_network.ts";
import type { MemoryTransport } from "../../transports/memory/memory_transport.ts";
import { VirtualClock } from "../support/virtual_clock.ts";
import { newMuxPlaneHarness } from "./mux_plane_harness.ts";
import { introduce, newStream, numberedItems, type PlaneHarness } from "./plane_harness.ts";
import { bytesOf, HoldingProducer } from "./plane_harness.ts";
import { testPlane } from "./plane_suite.ts";

testPlane("MuxPlane over memory", () => newHarness().harness);
testPlane("MuxPlane over memory, attaching,", () => newHarness({ streamSetup: "attach" }).harness);
testPlane(
  "MuxPlane over memory, one lane with jitter,",
  () => newHarness({ lanes: 1, flush: { kind: "auto", onAdmission: false, maxLingerMs: 5 } }, 3).harness,
);

/** Virtual time that a test may take, in ms. */
const PATIENCE_MS = 120_000;

function newHarness(mux: Partial<MuxOptions> = {}, jitterMs = 0, seed = 7) {
  const clock = new VirtualClock();
  const network = new MemoryNetwork({ clock, seed, jitterMs });
  const until = async (condition: () => boolean, what: string): Promise<void> => {
    const end = clock.now() + PATIENCE_MS;
    await clock.settle();
    while (!condition()) {
      if (clock.now() > end) throw new Error(`Waited in vain for ${what}`);
      await clock.advanceAsync(1);
    }
  };
  const harness: PlaneHarness = newMuxPlaneHarness<MemoryTransport>({
    clock,
    mux,
    transport: () => network.transport({ lanes: mux.lanes ?? 4 }),
    cut: (from, to) => {
      network.cut({ from: from.transport.name, to: to.transport.name }, "some");
    },
    kill: (node) => network.kill(node.transport.name, "some"),
    partition: (a, b) => {
      network.partition(a.transport.name, b.transport.name);
      return () => network.heal(a.transport.name, b.transport.name);
    },
    until,
    run: async (promise) => {
      let isSettled = false;
      const settled = (): void => {
        isSettled = true;
      };
      promise.then(settled, settled);
      await until(() => isSettled, "a promise");
      return await promise;
    },
    linger: () => clock.advanceAsync(20),
  });
  return { harness, network, clock };
}

Deno.test("MuxPlane keeps order and ends each stream once over 40 networks that cut connections at random", async () => {
  for (let seed = 1; seed <= 40; seed++) {
    const { harness, network, clock } = newHarness({ lanes: 1 + seed % 4 }, seed % 3, seed);
    const [frontend, worker] = [await harness.node(), await harness.node()];
    introduce(frontend, worker);
    const streams = Array.from({ length: 30 }, () => newStream(frontend, worker));
    for (const { sender } of streams) {
      new HoldingProducer(sender, 300, (index) => bytesOf(`t${index}`)).pump();
    }
    for (let cuts = 0; cuts < 5; cuts++) {
      await clock.advanceAsync(Math.floor(network.random() * 8));
      network.cut({ lane: Math.floor(network.random() * 4) }, "some");
    }
    await harness.until(
      () => streams.every(({ consumer }) => consumer.ends.length > 0),
      `seed ${seed} to end`,
    );
    await clock.advanceAsync(1_000);
    for (const { consumer, sender } of streams) {
      assertEquals(consumer.ends.length, 1, `seed ${seed}`);
      assertEquals(consumer.items, numberedItems(consumer.items.length), `seed ${seed}: a gap or a double`);
      if (consumer.ends[0]!.kind === "finalized") assertEquals(consumer.items.length, 300, `seed ${seed}`);
      assert(sender.ended !== null, `seed ${seed}: a sender is left`);
    }
    assertEquals([harness.leftovers(frontend), harness.leftovers(worker)], [{}, {}], `seed ${seed}`);
    await harness.close();
  }
});

Deno.test("MuxPlane keeps large records in their place over 20 networks that cut connections at random", async () => {
  const sizeOf = (index: number) => index % 23 === 22 ? 270_000 + index : 100 + index;
  for (let seed = 1; seed <= 20; seed++) {
    const { harness, network, clock } = newHarness({ lanes: 1 + seed % 3 }, seed % 3, seed);
    const [frontend, worker] = [await harness.node(), await harness.node()];
    introduce(frontend, worker);
    // One stream behind the other, so that places are given on while large records are under way.
    const streams: ReturnType<typeof newStream>[] = [];
    for (let round = 0; round < 20; round++) {
      const total = Math.floor(network.random() * 70);
      const stream = newStream(frontend, worker);
      stream.consumer.isCounting = true;
      streams.push(stream);
      new HoldingProducer(stream.sender, total, (index) => new Uint8Array(sizeOf(index))).pump();
      if (round % 3 === 0) await clock.advanceAsync(Math.floor(network.random() * 6));
      if (seed % 2 === 0 && round % 5 === 4) network.cut({ lane: Math.floor(network.random() * 3) }, "some");
      if (network.random() < 0.1) stream.anchor.cancel("gone");
    }
    const isOver = ({ sender }: (typeof streams)[number]) => sender.ended !== null;
    await harness.until(() => streams.every(isOver), `seed ${seed}: every sender to end`);
    await clock.advanceAsync(61_000); // what nobody came for is given up
    for (const { consumer } of streams) {
      const expected = consumer.items.map((_, index) => String(sizeOf(index)));
      assertEquals(consumer.items, expected, `seed ${seed}: a gap or a double`);
      assert(consumer.ends.length <= 1, `seed ${seed}`);
      if (seed % 2 === 1) assert(consumer.ends.every(({ kind }) => kind === "finalized"), `seed ${seed}`);
    }
    assertEquals([harness.leftovers(frontend), harness.leftovers(worker)], [{}, {}], `seed ${seed}`);
    assertEquals(worker.messenger.outbox.staging.size, 0, `seed ${seed}: staged for nobody`);
    await harness.close();
  }
});
