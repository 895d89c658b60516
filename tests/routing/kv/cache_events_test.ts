import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { TokenplaneError } from "../../../src/errors.ts";
import {
  EVENTS_HEADER_BYTES,
  EventsWriter,
  type EventVisitor,
  readEvents,
  readEventsHeader,
} from "../../../src/routing/kv/cache_events.ts";
import { hex } from "../../support/hex.ts";

type Pair = readonly [number, number];

function visited(message: Uint8Array): string[] {
  const seen: string[] = [];
  const visitor: EventVisitor = {
    onParent: (has, lo, hi) => void seen.push(has ? `behind ${lo}/${hi}` : "first"),
    onStored: (lo, hi, localLo, localHi) => void seen.push(`stored ${lo}/${hi} ${localLo}/${localHi}`),
    onRemoved: (lo, hi) => void seen.push(`removed ${lo}/${hi}`),
    onCleared: () => void seen.push("cleared"),
  };
  readEvents(message, readEventsHeader(message).events, visitor);
  return seen;
}

Deno.test("EventsWriter writes the layout of its table: golden bytes", () => {
  const writer = new EventsWriter();
  writer.stored(null, 1, 0, [0xaa, 0xbb]);
  writer.stored([1, 0], 2, 0, [0xcc, 0xdd]);
  writer.removed(3, 0);
  writer.removed(4, 0x8000_0000);
  writer.cleared();
  const message = writer.finish({ isSnapshot: false, virtualWorker: 5, firstEvent: 0x0102_0304_0506_0708n });
  assertEquals(
    hex(message),
    "01000500" + "0807060504030201" + "03000000" +
      "0100" + "0200" + "0100000000000000" + "aa000000bb000000" + "0200000000000000" + "cc000000dd000000" +
      "0200" + "0200" + "0300000000000000" + "0400000000000080" +
      "0300",
  );
  assertEquals(visited(message), [
    "first",
    "stored 1/0 170/187",
    "stored 2/0 204/221",
    "removed 3/0",
    `removed 4/${0x8000_0000}`,
    "cleared",
  ]);
});

Deno.test("EventsWriter and readEvents agree, however many events of whatever kind", () => {
  const half = fc.nat(0xffff_ffff);
  const pair = fc.tuple(half, half);
  const event = fc.oneof(
    fc.record({ kind: fc.constant("stored" as const), parent: fc.option(pair), block: pair, local: pair }),
    fc.record({ kind: fc.constant("removed" as const), block: pair }),
    fc.record({ kind: fc.constant("cleared" as const) }),
  );
  fc.assert(fc.property(fc.array(event, { maxLength: 600 }), (events) => {
    const writer = new EventsWriter();
    const expected: string[] = [];
    let last: Pair | null = null;
    for (const one of events) {
      if (one.kind === "stored") {
        const { parent, block, local } = one;
        writer.stored(parent, ...block, local);
        const follows = last !== null && parent !== null && parent[0] === last[0] && parent[1] === last[1];
        if (!follows) expected.push(parent === null ? "first" : `behind ${parent[0]}/${parent[1]}`);
        expected.push(`stored ${block[0]}/${block[1]} ${local[0]}/${local[1]}`);
        last = block;
      } else if (one.kind === "removed") {
        writer.removed(...one.block);
        expected.push(`removed ${one.block[0]}/${one.block[1]}`);
        last = null;
      } else {
        writer.cleared();
        expected.push("cleared");
        last = null;
      }
    }
    const message = writer.finish({ isSnapshot: true, virtualWorker: 0, firstEvent: 1n });
    assertEquals(visited(message), expected);
    assertEquals([writer.events, writer.length], [0, EVENTS_HEADER_BYTES]);
  }));
});

Deno.test("readEvents refuses every cut message and whatever follows the last event", () => {
  const writer = new EventsWriter();
  writer.stored([9, 9], 1, 0, [1, 1]);
  writer.removed(3, 0);
  writer.cleared();
  const message = writer.finish({ isSnapshot: false, virtualWorker: 0, firstEvent: 0n }).slice();
  for (let length = 0; length < message.length; length++) {
    assertThrows(() => visited(message.subarray(0, length)), TokenplaneError);
  }
  assertThrows(() => visited(Uint8Array.from([...message, 0])), TokenplaneError, "1 bytes follow");
});

Deno.test("readEvents never throws anything but a protocol error, whatever the bytes", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), fc.boolean(), (bytes, isPlausible) => {
    if (isPlausible && bytes.length > 16) bytes.set([1, 0]);
    try {
      visited(bytes);
    } catch (caught) {
      assertEquals(caught instanceof TokenplaneError && caught.code, "protocol");
    }
  }));
});
