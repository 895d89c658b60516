import { MemoryNetwork } from "../../transports/memory/memory_network.ts";
import type { MemoryTransport } from "../../transports/memory/memory_transport.ts";
import { VirtualClock } from "../support/virtual_clock.ts";
import type { TransportHarness } from "./transport_harness.ts";
import { testTransport } from "./transport_suite.ts";

testTransport("Memory", () => newMemoryHarness(1));
testTransport("Memory, with jitter,", () => newMemoryHarness(7, 3));

/** All transports of one harness share the first one's queue size: it is the network's. */
function newMemoryHarness(seed: number, jitterMs = 0): TransportHarness {
  const clock = new VirtualClock();
  let network: MemoryNetwork | null = null;
  return {
    transport: (options = {}) => {
      network ??= new MemoryNetwork({ clock, seed, jitterMs, queueFrames: options.queueFrames ?? 256 });
      return network.transport({
        lanes: options.lanes ?? 4,
        ...(options.onBug === undefined ? {} : { onBug: options.onBug }),
      });
    },
    deadEntry: () => new TextEncoder().encode("memory://nobody"),
    pause: (at, from) => {
      const [sender, lane] = from.remote.split("/");
      const filter = { from: sender!, to: (at as MemoryTransport).name, lane: Number(lane) };
      network!.pause(filter);
      return () => network!.resume(filter);
    },
    until: async (condition, what) => {
      for (let i = 0; i < 20_000 && !condition(); i++) await clock.advanceAsync(1);
      if (!condition()) throw new Error(`Waited in vain for ${what}`);
    },
    run: async (promise) => {
      let isSettled = false;
      const settled = (): void => {
        isSettled = true;
      };
      promise.then(settled, settled);
      for (let i = 0; i < 20_000 && !isSettled; i++) await clock.advanceAsync(1);
      return await promise;
    },
    linger: () => clock.advanceAsync(20),
  };
}
