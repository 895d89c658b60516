import { assertEquals, assertThrows } from "@std/assert";
import { encode } from "@std/msgpack";
import fc from "fast-check";
import { TokenplaneError } from "../../src/errors.ts";
import {
  decodeAddressEntry,
  encodeAddressEntry,
  MAX_WORKER_ADDRESS_BYTES,
} from "../../transports/ucx/address_entry.ts";

const GOLDEN = "9501cd5645ce00100000cedeadbeefc4050102030405";
const EXAMPLE = {
  eagerMax: 1 << 20,
  incarnation: 0xdeadbeefn,
  workerAddress: new Uint8Array([1, 2, 3, 4, 5]),
};

Deno.test("encodeAddressEntry writes the bytes that other nodes write", () => {
  assertEquals(encodeAddressEntry(EXAMPLE).toHex(), GOLDEN);
});

Deno.test("decodeAddressEntry reads the bytes that other nodes write", () => {
  assertEquals(decodeAddressEntry(Uint8Array.fromHex(GOLDEN)), EXAMPLE);
  const wide = Uint8Array.fromHex(
    "95cc01cd5645ce00100000cf00000000deadbeefc5000501020304 05".replace(" ", ""),
  );
  assertEquals(decodeAddressEntry(wide), EXAMPLE, "any width of an integer");
  assertEquals(decodeAddressEntry(Uint8Array.fromHex(`${GOLDEN}ffff`)), EXAMPLE, "bytes behind it");
});

Deno.test("decodeAddressEntry gives back what encodeAddressEntry was given", () => {
  const addresses = fc.record({
    eagerMax: fc.integer({ min: 1, max: 16_777_216 }),
    incarnation: fc.bigInt({ min: 0n, max: 0xffff_ffff_ffff_ffffn }),
    workerAddress: fc.uint8Array({ minLength: 1, maxLength: 700 }).map((bytes) => new Uint8Array(bytes)),
  });
  fc.assert(fc.property(addresses, (address) => {
    assertEquals(decodeAddressEntry(encodeAddressEntry(address)), { ...address });
  }));
});

Deno.test("decodeAddressEntry caps what a peer claims to take", () => {
  assertEquals(
    decodeAddressEntry(encodeAddressEntry({ ...EXAMPLE, eagerMax: 0xffff_ffff })).eagerMax,
    16_777_216,
  );
});

Deno.test("decodeAddressEntry refuses what is not an entry", async (t) => {
  const bin = new Uint8Array([1]);
  const table: [string, Uint8Array][] = [
    ["nothing", new Uint8Array(0)],
    ["a map", encode({ v: 1 })],
    ["four fields", encode([1, 0x5645, 1024, 1])],
    ["six fields", encode([1, 0x5645, 1024, 1, bin, 1])],
    ["version 2", encode([2, 0x5645, 1024, 1, bin])],
    ["a version in text", encode(["1", 0x5645, 1024, 1, bin])],
    ["another id base", encode([1, 0x5646, 1024, 1, bin])],
    ["an eager maximum of 0", encode([1, 0x5645, 0, 1, bin])],
    ["a negative eager maximum", encode([1, 0x5645, -1, 1, bin])],
    ["an eager maximum of 33 bits", encode([1, 0x5645, 0x1_0000_0000, 1, bin])],
    ["a negative incarnation", encode([1, 0x5645, 1024, -1, bin])],
    ["an empty worker address", encode([1, 0x5645, 1024, 1, new Uint8Array(0)])],
    ["a worker address in text", encode([1, 0x5645, 1024, 1, "address"])],
    ["a worker address of ints", encode([1, 0x5645, 1024, 1, [1, 2, 3]])],
    ["a large worker address", encode([1, 0x5645, 1024, 1, new Uint8Array(MAX_WORKER_ADDRESS_BYTES + 1)])],
    ["deep nesting", new Uint8Array(2_000).fill(0x91)],
    ["a length that is a lie", Uint8Array.fromHex("9501cd5645ce00100000cedeadbeefc6ffffffff01")],
  ];
  for (const [name, bytes] of table) {
    await t.step(name, () => {
      const error = assertThrows(() => decodeAddressEntry(bytes), TokenplaneError);
      assertEquals(error.code, "invalid_request");
      assertEquals(error.message.includes("\n"), false);
    });
  }
});

Deno.test("decodeAddressEntry refuses an entry cut anywhere, and never fails otherwise", () => {
  const whole = Uint8Array.fromHex(GOLDEN);
  for (let length = 0; length < whole.length; length++) {
    assertThrows(() => decodeAddressEntry(whole.subarray(0, length)), TokenplaneError);
  }
  fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
    try {
      decodeAddressEntry(bytes);
    } catch (caught) {
      assertEquals(caught instanceof TokenplaneError, true);
    }
  }));
});
