/** Many streams, many nodes. */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import {
  assertQuiet,
  bytesOf,
  ended,
  introduce,
  newStream,
  numberedItems,
  pair,
  type PlaneStream,
  produce,
  type Scenario,
} from "./plane_harness.ts";

/** Scenarios for `testPlane`. */
export const MANY: Record<string, Scenario> = {
  "carries 1,000 streams of 100 items": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const streams = Array.from({ length: 1_000 }, () => newStream(frontend, worker));
    streams.forEach((stream, index) => produce(stream, 100, `${index}.`));
    await ended(harness, streams);
    streams.forEach(({ consumer }, index) => {
      assertEquals(consumer.items, numberedItems(100, `${index}.`));
      assertEquals(consumer.ends, [{ kind: "finalized" }]);
    });
    await assertQuiet(harness, frontend, worker);
  },
  "carries streams of every length from 0 to 100": async (harness) => {
    const [frontend, worker] = await pair(harness, 4);
    const streams = Array.from({ length: 101 }, () => newStream(frontend, worker));
    streams.forEach((stream, index) => produce(stream, index));
    await ended(harness, streams);
    streams.forEach(({ consumer }, index) => assertEquals(consumer.items, numberedItems(index)));
    await assertQuiet(harness, frontend, worker);
  },
  "opens and closes 2,000 streams one after the other": async (harness) => {
    const [frontend, worker] = await pair(harness);
    for (let i = 0; i < 2_000; i++) {
      const stream = newStream(frontend, worker);
      produce(stream, 1, `${i}.`);
      if (i % 100 !== 99) continue;
      await ended(harness, [stream]);
      assertEquals(stream.consumer.items, [`${i}.0`]);
    }
    await assertQuiet(harness, frontend, worker);
  },
  "serves several workers and frontends at once": async (harness) => {
    const frontends = [await harness.node(), await harness.node(), await harness.node()];
    const workers = [await harness.node(), await harness.node(), await harness.node()];
    for (const frontend of frontends) for (const worker of workers) introduce(frontend, worker);
    const streams: PlaneStream[] = [];
    for (let i = 0; i < 90; i++) {
      const stream = newStream(frontends[i % 3]!, workers[Math.floor(i / 3) % 3]!);
      streams.push(stream);
      produce(stream, 60, `${i}.`);
    }
    await ended(harness, streams);
    streams.forEach(({ consumer }, index) => assertEquals(consumer.items, numberedItems(60, `${index}.`)));
    await assertQuiet(harness, ...frontends, ...workers);
  },
  "leaves nothing after a mix of finishes, failures, drops and cancels": async (harness) => {
    const [frontend, worker] = await pair(harness);
    const streams = Array.from({ length: 400 }, () => newStream(frontend, worker));
    streams.forEach((stream, index) => {
      const { anchor, consumer, sender } = stream;
      if (index % 3 === 0) anchor.pause();
      for (const item of numberedItems(index % 7)) sender.sendData(bytesOf(item));
      if (index % 4 === 0) sender.finalize();
      else if (index % 4 === 1) sender.fail("failed");
      else if (index % 4 === 2) sender.drop();
      if (index % 5 === 0 || index % 4 === 3) anchor.cancel("gone");
      else consumer.take(Infinity);
    });
    await assertQuiet(harness, frontend, worker);
    streams.forEach(({ consumer, sender }, index) => {
      const isCancelled = index % 5 === 0 || index % 4 === 3;
      assert(
        consumer.ends.length === (isCancelled ? 0 : 1),
        `stream ${index} ended ${consumer.ends.length} times`,
      );
      assertNotEquals(sender.ended, null);
    });
  },
};
