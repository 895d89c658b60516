import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { TokenplaneError } from "../../src/errors.ts";
import {
  decodeAck,
  decodeName,
  decodeRequestHeader,
  decodeResponseIsError,
  encodeAckHeader,
  encodeRequestHeader,
  encodeResponseHeader,
  REQUEST_ID_AT,
  ResponseType,
} from "../../src/messenger/envelope.ts";
import { ResponseArena } from "../../src/messenger/response_ids.ts";
import { hex, unhex } from "../support/hex.ts";

const WORKER = 0xba7333c2a9286a12n;

/** The response id bytes of a slot and generation. */
function idOf(slot: number, generation: number): Uint8Array {
  const bytes = unhex("126a28a9c23373ba 0000 000000000000");
  new DataView(bytes.buffer).setUint16(8, slot, true);
  new DataView(bytes.buffer).setUint32(10, generation, true);
  return bytes;
}

Deno.test("encodeRequestHeader writes the headers of the specification", () => {
  const hello = encodeRequestHeader(ResponseType.unary, "_hello");
  new ResponseArena<number>(WORKER).acquire(1, hello, REQUEST_ID_AT);
  assertEquals(hex(hello), "0102126a28a9c23373ba000000000000000006005f68656c6c6f0000");
  const batch = encodeRequestHeader(ResponseType.fireAndForget, "_stream_batch");
  new ResponseArena<number>(WORKER).stamp(batch, REQUEST_ID_AT);
  assertEquals(hex(batch), "0100126a28a9c23373ba00000000000000000d005f73747265616d5f62617463680000");
  assertEquals(batch.length, 35);
  const staged = encodeRequestHeader(ResponseType.fireAndForget, "_stream_batch", { _rv: "123" });
  staged.set(idOf(5, 2), REQUEST_ID_AT);
  assertEquals(
    hex(staged),
    "0100126a28a9c23373ba05000200000000000d005f73747265616d5f6261746368090081a35f7276a3313233",
  );
  assertEquals(hex(encodeRequestHeader(1, "x", {})).slice(-6), "010080");
});

Deno.test("encodeAckHeader and encodeResponseHeader write the headers of the specification", () => {
  assertEquals(hex(encodeAckHeader(idOf(3, 7), 0, true)), "02126a28a9c23373ba0300070000000000");
  assertEquals(hex(encodeAckHeader(idOf(3, 7), 0, false)), "00126a28a9c23373ba0300070000000000");
  assertEquals(hex(encodeResponseHeader(idOf(0, 0), 0, false)), "126a28a9c23373ba0000000000000000000000");
  assertEquals(decodeResponseIsError(encodeResponseHeader(idOf(0, 0), 0, true)), true);
  assertEquals(
    decodeResponseIsError(unhex("126a28a9c23373ba0000000000000000070000")),
    true,
    "anything but 0",
  );
  assertEquals(decodeAck(unhex("03126a28a9c23373ba0300070000000000")), { isEvent: true, isError: true });
});

Deno.test("decodeRequestHeader reads what encodeRequestHeader writes", () => {
  const name = fc.string({ minLength: 1, maxLength: 40, unit: "binary" });
  // One key that decoders refuse is refused by the encoder as well.
  const key = fc.string({ maxLength: 10 }).filter((text) => text !== "__proto__");
  const headers = fc.option(fc.dictionary(key, fc.string({ maxLength: 100 })), { nil: undefined });
  fc.assert(fc.property(fc.integer({ min: 0, max: 2 }), name, headers, (responseType, text, map) => {
    const bytes = encodeRequestHeader(responseType as ResponseType, text, map);
    const seen = decodeRequestHeader(bytes);
    assertEquals([seen.responseType, decodeName(seen.name)], [responseType, text]);
    assertEquals(JSON.stringify(seen.headers), JSON.stringify(map === undefined ? null : { ...map }));
    for (let cut = 0; cut < bytes.length; cut++) {
      assertThrows(() => decodeRequestHeader(bytes.subarray(0, cut)), TokenplaneError);
    }
  }));
});

Deno.test("encodeRequestHeader refuses a header that no peer would read", () => {
  const headers = JSON.parse('{"__proto__":"x"}');
  assertThrows(() => encodeRequestHeader(0, "name", headers), TokenplaneError, "__proto__");
});

Deno.test("decodeRequestHeader refuses what breaks the layout", () => {
  const bad: Record<string, string> = {
    "nothing": "",
    "21 bytes": "00".repeat(21),
    "version 2": "0200" + "00".repeat(16) + "0100610000",
    "response type 3": "0103" + "00".repeat(16) + "0100610000",
    "no name": "0100" + "00".repeat(16) + "00000000",
    "name that overruns": "0100" + "00".repeat(16) + "0200610000",
    "headers that overrun": "0100" + "00".repeat(16) + "0100610100",
    "headers over 16 KiB": "0100" + "00".repeat(16) + "0100610140" + "00".repeat(16_385),
    "headers that are no map": "0100" + "00".repeat(16) + "010061010001",
    "header that is no text": "0100" + "00".repeat(16) + "010061040081a16101",
    "headers cut short": "0100" + "00".repeat(16) + "010061010081",
  };
  for (const [name, text] of Object.entries(bad)) {
    assertThrows(() => decodeRequestHeader(unhex(text)), TokenplaneError, undefined, name);
  }
  assertThrows(() => decodeName(new Uint8Array([0xff])), TokenplaneError);
});

Deno.test("the decoders throw nothing but their own errors on noise", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), fc.boolean(), (noise, isPlausible) => {
      if (isPlausible && noise.length > 22) {
        noise.set([1, noise[1]! % 3]);
        noise.set([noise[18]! % 40, 0], 18);
      }
      for (const decode of [decodeRequestHeader, decodeResponseIsError, decodeAck]) {
        try {
          decode(noise);
        } catch (caught) {
          assert(caught instanceof TokenplaneError);
        }
      }
    }),
    { numRuns: 1_000 },
  );
});

Deno.test("encodeRequestHeader refuses names and headers over the limits", () => {
  assertThrows(() => encodeRequestHeader(0, ""), TokenplaneError, "1 to 65535");
  assertThrows(() => encodeRequestHeader(0, "x".repeat(65_536)), TokenplaneError, "1 to 65535");
  assertThrows(
    () => encodeRequestHeader(0, "x", { a: "y".repeat(1_025) }),
    TokenplaneError,
    "over 1024 bytes",
  );
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${i}`, "y".repeat(1_000)]));
  assertThrows(() => encodeRequestHeader(0, "x", many), TokenplaneError, "over 16384 bytes");
});
