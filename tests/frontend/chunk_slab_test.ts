import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  ChunkSlab,
  frameChunk,
  ownChunk,
  PREFIX_BYTES,
  SLAB_BYTES,
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

Deno.test("ChunkSlab never hands the same bytes out twice, and grows only the last chunk", () => {
  const lengths = fc.array(fc.tuple(fc.integer({ min: 1, max: SLAB_BYTES / 4 }), fc.boolean()), {
    maxLength: 60,
  });
  fc.assert(fc.property(lengths, (steps) => {
    const slab = new ChunkSlab();
    const open: { buffer: Uint8Array; start: number; end: number; fill: number }[] = [];
    let last: (typeof open)[number] | null = null;
    steps.forEach(([length, wantsGrowth], index) => {
      const fill = index % 251;
      if (wantsGrowth && last !== null && slab.canGrow(last.buffer as typeof slab.buffer, last.end, length)) {
        last.buffer.fill(last.fill, last.end, last.end + length);
        last.end += length;
        slab.cursor = last.end;
        return;
      }
      const start = slab.open(length);
      last = { buffer: slab.buffer, start, end: start + length, fill };
      last.buffer.fill(fill, start, last.end);
      slab.cursor = last.end;
      open.push(last);
    });
    for (const chunk of open) frameChunk(chunk.buffer, chunk.start, chunk.end);
    for (const { buffer, start, end, fill } of open) {
      assert(buffer.subarray(start, end).every((byte) => byte === fill), "a chunk was written over");
      assertEquals(text(buffer.subarray(end, end + 2)), "\r\n");
    }
  }));
});
