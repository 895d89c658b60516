import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { TokenplaneError } from "../../src/errors.ts";
import { MAX_FRAME_BYTES, type MessageType } from "../../transports/contract.ts";
import { encodeFrame, PREAMBLE_BYTES } from "../../transports/tcp/frame.ts";
import { FrameReader } from "../../transports/tcp/frame_reader.ts";
import { hex, unhex } from "../support/hex.ts";

interface Seen {
  type: number;
  header: string;
  payload: string;
}

/** Feeds `bytes` in pieces that end at `cuts`; returns what came out. */
function feed(
  bytes: Uint8Array,
  cuts: readonly number[],
  reader = new FrameReader({ initialBytes: 16 }),
): Seen[] {
  const seen: Seen[] = [];
  let at = 0;
  for (const cut of [...cuts, bytes.length]) {
    while (at < cut) {
      const space = reader.space();
      assert(space.length > 0);
      const piece = bytes.subarray(at, Math.min(cut, at + space.length));
      space.set(piece);
      at += piece.length;
      reader.take(piece.length, (type, header, payload) => {
        seen.push({ type, header: hex(header), payload: hex(payload) });
        return true;
      });
    }
  }
  return seen;
}

// _hello with an empty address, its response, and a nack: the examples of the wire specification.
const HELLO = unhex(`
  0001 00 0000001c 0000005b 01 02 126a28a9c23373ba 0000 000000000000 0600 5f68656c6c6f 0000
  7b22706565725f696e666f223a7b22696e7374616e63655f6964223a2230313233343536372d383961622d346364652d38
  6630312d323334353637383961626364222c22776f726b65725f61646472657373223a5b3132385d7d7d`);
const ANSWER = unhex(`
  0001 01 00000013 00000028 126a28a9c23373ba 0000 000000000000 00 0000
  7b2268616e646c657273223a5b225f68656c6c6f222c225f6c6973745f68616e646c657273225d7d`);
const NACK = unhex("0001 02 00000011 00000004 02 126a28a9c23373ba 0300 070000000000 626f6f6d");

Deno.test("encodeFrame writes the frames of the specification", () => {
  for (const [bytes, type, headerBytes] of [[HELLO, 0, 28], [ANSWER, 1, 19], [NACK, 2, 17]] as const) {
    const header = bytes.subarray(PREAMBLE_BYTES, PREAMBLE_BYTES + headerBytes);
    assertEquals(hex(encodeFrame(type, header, bytes.subarray(PREAMBLE_BYTES + headerBytes))), hex(bytes));
  }
  const refusal = encodeFrame(4, HELLO.subarray(11, 39), new Uint8Array(0));
  assertEquals(hex(refusal), "0001040000001c00000000" + hex(HELLO.subarray(11, 39)));
});

Deno.test("FrameReader finds the same frames whole, byte by byte and at each split", () => {
  const bytes = new Uint8Array([
    ...HELLO,
    ...ANSWER,
    ...NACK,
    ...encodeFrame(3, new Uint8Array(0), new Uint8Array(0)),
  ]);
  const whole = feed(bytes, []);
  assertEquals(whole.map((frame) => frame.type), [0, 1, 2, 3]);
  assertEquals(whole[2], { type: 2, header: hex(NACK.subarray(11, 28)), payload: "626f6f6d" });
  assertEquals(feed(bytes, Array.from({ length: bytes.length - 1 }, (_, i) => i + 1)), whole);
  for (let cut = 1; cut < bytes.length; cut++) assertEquals(feed(bytes, [cut]), whole);
});

Deno.test("FrameReader refuses a bad preamble as soon as its 11 bytes are there", () => {
  const bad: Record<string, string> = {
    "version 0": "0000 00 00000000 00000000",
    "version 2": "0002 00 00000000 00000000",
    "little-endian version": "0100 00 00000000 00000000",
    "type 5": "0001 05 00000000 00000000",
    "type 255": "0001 ff 00000000 00000000",
    "payload one over": "0001 00 00000000 01000001",
    "sum one over": "0001 00 00800000 00800001",
    "sum overflowing 32 bits": "0001 00 ffffffff 00000002",
    "all ones": "0001 00 ffffffff ffffffff",
  };
  for (const [name, text] of Object.entries(bad)) {
    const bytes = unhex(text);
    const reader = new FrameReader({ initialBytes: 64 });
    assertEquals(feed(bytes.subarray(0, 10), [], reader), [], name);
    const error = assertThrows(() => feed(bytes.subarray(10), [], reader), TokenplaneError, undefined, name);
    assert(["protocol", "too_large"].includes((error as TokenplaneError).code));
    assertEquals(reader.capacity, 64, `${name}: nothing was allocated for it`);
  }
});

Deno.test("FrameReader delivers the frames in front of a bad one", () => {
  const seen: number[] = [];
  const reader = new FrameReader();
  const bytes = new Uint8Array([...NACK, ...NACK, ...unhex("0001 09 00000000 00000000")]);
  reader.space().set(bytes);
  assertThrows(() => reader.take(bytes.length, (type) => seen.push(type) > 0), TokenplaneError);
  assertEquals(seen, [2, 2]);
});

Deno.test("FrameReader grows with what has arrived, not with what was promised", () => {
  const reader = new FrameReader({ initialBytes: 1_024 });
  const preamble = encodeFrame(0, new Uint8Array(0), new Uint8Array(0));
  new DataView(preamble.buffer).setUint32(7, MAX_FRAME_BYTES);
  feed(preamble, [], reader);
  assertEquals(reader.capacity, 1_024);
  feed(new Uint8Array(1_100), [], reader);
  assertEquals(reader.capacity, 2_048);
});

Deno.test("FrameReader gives up a buffer that one large frame made large", () => {
  const reader = new FrameReader({ initialBytes: 1_024, shrinkAboveBytes: 600_000 });
  const small = encodeFrame(0, new Uint8Array(1), new Uint8Array(1));
  feed(encodeFrame(0, new Uint8Array(0), new Uint8Array(1_000_000)), [], reader);
  assertEquals(reader.capacity, 1_048_576, "a frame that needs it keeps it");
  feed(small, [], reader);
  assertEquals([reader.capacity, reader.pendingBytes], [1_024, 0]);
});

Deno.test("FrameReader stops for good when the handler says so", () => {
  const reader = new FrameReader();
  const bytes = new Uint8Array([...NACK, ...NACK]);
  reader.space().set(bytes);
  let count = 0;
  assertEquals(reader.take(bytes.length, () => ++count > 1), false);
  assertEquals(count, 1);
});

Deno.test("FrameReader gives back any frames, cut anywhere", () => {
  const frame = fc.record({
    type: fc.integer({ min: 0, max: 4 }),
    header: fc.uint8Array({ maxLength: 40 }),
    payload: fc.uint8Array({ maxLength: 300 }),
  });
  fc.assert(
    fc.property(fc.array(frame, { maxLength: 12 }), fc.array(fc.nat(3_000)), (frames, cuts) => {
      const chunks = frames.map((f) => encodeFrame(f.type as MessageType, f.header, f.payload));
      const bytes = new Uint8Array(chunks.flatMap((chunk) => [...chunk]));
      const sorted = cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b);
      assertEquals(
        feed(bytes, sorted),
        frames.map((f) => ({ type: f.type, header: hex(f.header), payload: hex(f.payload) })),
      );
    }),
    { numRuns: 150 },
  );
});

Deno.test("FrameReader throws nothing but its own errors on noise", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), fc.boolean(), (noise, isPlausible) => {
      if (isPlausible) noise.set([0, 1, 0, 0, 0, 0].slice(0, noise.length));
      try {
        feed(noise, [7, 50].filter((cut) => cut < noise.length));
      } catch (caught) {
        assert(caught instanceof TokenplaneError);
      }
    }),
    { numRuns: 500 },
  );
});
