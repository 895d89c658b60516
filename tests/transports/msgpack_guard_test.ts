import { assert, assertEquals, assertThrows } from "@std/assert";
import { encode } from "@std/msgpack";
import fc from "fast-check";
import { TokenplaneError } from "../../src/errors.ts";
import { measureMsgpack } from "../../transports/msgpack_guard.ts";
import { unhex } from "../support/hex.ts";

const BOUNDS = { maxBytes: 1_000_000, maxDepth: 8 };

Deno.test("measureMsgpack measures whatever the encoder writes", () => {
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof({ depthSize: "small", maxDepth: 5 }, tie("leaf"), tie("list"), tie("map")),
    leaf: fc.oneof(
      fc.integer(),
      fc.string(),
      fc.boolean(),
      fc.constant(null),
      fc.uint8Array({ maxLength: 400 }),
    ),
    list: fc.array(tie("tree"), { maxLength: 20 }),
    map: fc.dictionary(fc.string({ maxLength: 8 }), tie("tree"), { maxKeys: 20 }),
  }));
  fc.assert(
    fc.property(tree, fc.uint8Array({ maxLength: 5 }), (value, tail) => {
      const bytes = encode(value as Parameters<typeof encode>[0]);
      assertEquals(measureMsgpack(new Uint8Array([...bytes, ...tail]), BOUNDS), bytes.length);
      for (let cut = 0; cut < Math.min(bytes.length, 30); cut++) {
        assertThrows(() => measureMsgpack(bytes.subarray(0, cut), BOUNDS), TokenplaneError);
      }
    }),
    { numRuns: 200 },
  );
});

Deno.test("measureMsgpack refuses bombs without following them", () => {
  const bad: Record<string, Uint8Array> = {
    "array of 4 billion": unhex("ddffffffff"),
    "map of 4 billion": unhex("dfffffffff"),
    "text of 4 GB": unhex("dbffffffff41"),
    "bytes of 4 GB": unhex("c6ffffffff41"),
    "a million levels": new Uint8Array(1_000_000).fill(0x91),
    "extension": unhex("d40100"),
    "reserved marker": unhex("c1"),
    "float": unhex("cb3ff0000000000000"),
    "nothing": new Uint8Array(0),
  };
  for (const [name, bytes] of Object.entries(bad)) {
    assertThrows(() => measureMsgpack(bytes, BOUNDS), TokenplaneError, undefined, name);
  }
  assertThrows(
    () => measureMsgpack(unhex("a3414141"), { maxBytes: 3, maxDepth: 1 }),
    TokenplaneError,
    "more than 3",
  );
  assertEquals(measureMsgpack(unhex("919101"), { maxBytes: 10, maxDepth: 2 }), 3);
  assertThrows(
    () => measureMsgpack(unhex("91919101"), { maxBytes: 10, maxDepth: 2 }),
    TokenplaneError,
    "deeper than 2",
  );
});

Deno.test("measureMsgpack throws nothing but its own errors on noise", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 100 }), (noise) => {
      try {
        assert(measureMsgpack(noise, BOUNDS) <= noise.length);
      } catch (caught) {
        assert(caught instanceof TokenplaneError);
      }
    }),
    { numRuns: 1_000 },
  );
});
