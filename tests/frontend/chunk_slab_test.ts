import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  ChunkSlab,
  frameChunk,
  MAX_SLAB_CHUNK_BYTES,
  ownChunk,
  PREFIX_BYTES,
} from "../../src/frontend/egress/chunk_slab.ts";

const text = (data: Uint8Array) => new TextDecoder().decode(data);

Deno.test("frameChunk frames any length so that the standard's grammar finds the data again", () => {
  for (const length of [1, 9, 10, 15, 16, 17, 255, 256, 4_095, 4_096, 65_535, 65_536, 1_048_575, 1_048_576]) {
    const buffer = ownChunk(length);
    buffer.fill(0x61);
    const start = frameChunk(buffer, PREFIX_BYTES, PREFIX_BYTES + length);
    const framed = text(buffer.subarray(start, PREFIX_BYTES + length + 2));
    const line = framed.indexOf("\r\n");
    assertEquals(framed.slice(0, line), length.toString(16));
    assertEquals(framed.slice(line + 2), "a".repeat(length) + "\r\n");
  }
});

const steps = fc.array(
  fc.record({
    length: fc.integer({ min: 1, max: MAX_SLAB_CHUNK_BYTES }),
    way: fc.constantFrom("open", "openWith", "grow"),
    room: fc.nat(300),
    flush: fc.integer({ min: 0, max: 9 }).map((n) => n === 0),
  }),
  { maxLength: 80 },
);

for (const isReused of [false, true]) {
  Deno.test(
    `ChunkSlab ${
      isReused ? "that is reused" : "of once-used memory"
    } writes over no chunk that may still be sent`,
    () => {
      fc.assert(fc.property(steps, (taken) => {
        const slab = new ChunkSlab(isReused);
        const source = new Uint8Array(MAX_SLAB_CHUNK_BYTES + 8);
        let open: { buffer: Uint8Array<ArrayBuffer>; start: number; end: number; fill: number }[] = [];
        const check = () => {
          for (const chunk of open) frameChunk(chunk.buffer, chunk.start, chunk.end);
          for (const { buffer, start, end, fill } of open) {
            assert(buffer.subarray(start, end).every((byte) => byte === fill), "a chunk was written over");
            assertEquals(text(buffer.subarray(end, end + 2)), "\r\n");
          }
        };
        taken.forEach(({ length, way, room, flush }, index) => {
          const fill = index % 251;
          const last = open.at(-1);
          if (way === "grow" && last !== undefined && slab.canGrow(last.buffer, last.end, length)) {
            last.buffer.fill(last.fill, last.end, last.end + length);
            last.end += length;
            slab.cursor = last.end;
          } else if (way === "openWith") {
            const from = index % 8;
            source.fill(fill, from, from + length);
            const start = slab.openWith(source, from, from + length, room);
            slab.buffer.fill(fill, start - room, start);
            open.push({ buffer: slab.buffer, start: start - room, end: start + length, fill });
          } else {
            const start = slab.open(length);
            open.push({ buffer: slab.buffer, start, end: start + length, fill });
            slab.buffer.fill(fill, start, start + length);
            slab.cursor = start + length;
          }
          if (!flush || !isReused) return;
          check();
          open = [];
          slab.rewind();
        });
        check();
      }));
    },
  );
}

Deno.test("ChunkSlab that was renewed leaves all it had handed out alone", () => {
  const slab = new ChunkSlab(true);
  const start = slab.open(100);
  const { buffer } = slab;
  buffer.fill(1, start, start + 100);
  slab.renew();
  for (let round = 0; round < 20; round++) {
    const at = slab.open(8_000);
    assert(slab.buffer !== buffer);
    slab.buffer.fill(2, at, at + 8_000);
    slab.cursor = at + 8_000;
    if (round % 7 === 6) slab.rewind();
  }
  assert(buffer.subarray(start, start + 100).every((byte) => byte === 1));
});

Deno.test("ChunkSlab that is reused hands out the same memory after each rewind, and keeps no more than a megabyte", () => {
  const slab = new ChunkSlab(true);
  const fill = () => {
    const buffers = new Set<Uint8Array>();
    for (let chunk = 0; chunk < 300; chunk++) {
      slab.cursor = slab.open(8_000) + 8_000;
      buffers.add(slab.buffer);
    }
    slab.rewind();
    return [...buffers];
  };
  const first = fill();
  const again = fill();
  assert(first.length > 4);
  assertEquals(again.filter((buffer) => first.includes(buffer)), first.slice(0, 4));
});
