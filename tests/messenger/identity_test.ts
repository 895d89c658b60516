import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { TokenplaneError } from "../../src/errors.ts";
import { parseJson, stringifyJson } from "../../src/messenger/json.ts";
import {
  decodeWorkerAddress,
  encodeWorkerAddress,
  peerInfoFromJson,
  peerInfoToJson,
} from "../../src/messenger/peer_info.ts";
import { isInstanceId, newInstanceId, workerIdOf } from "../../src/messenger/worker_id.ts";
import { hex, unhex } from "../support/hex.ts";

const ID = "01234567-89ab-4cde-8f01-23456789abcd";

Deno.test("workerIdOf gives the ids of the specification", () => {
  const vectors: [string, bigint][] = [
    [ID, 0xba7333c2a9286a12n],
    ["00000000-0000-0000-0000-000000000000", 0xd0a66a65c7528968n],
    ["ffffffff-ffff-ffff-ffff-ffffffffffff", 0x722a202f07a4b313n],
  ];
  for (const [id, expected] of vectors) assertEquals(workerIdOf(id), expected);
  for (const bad of ["", ID.toUpperCase(), ID + "0", "0123456789ab4cde8f0123456789abcd"]) {
    assertThrows(() => workerIdOf(bad), TokenplaneError, "lower-case UUID");
  }
});

Deno.test("newInstanceId gives a new UUID each time", () => {
  const ids = new Set(Array.from({ length: 100 }, newInstanceId));
  assertEquals(ids.size, 100);
  for (const id of ids) assert(isInstanceId(id));
});

Deno.test("workerIdOf agrees with the 9-to-16-byte path of XXH3 written out", () => {
  const mask = 0xffff_ffff_ffff_ffffn;
  const swap = (value: bigint): bigint => {
    let swapped = 0n;
    for (let i = 0n; i < 64n; i += 8n) swapped = (swapped << 8n) | ((value >> i) & 0xffn);
    return swapped;
  };
  for (let i = 0; i < 50; i++) {
    const id = crypto.randomUUID();
    const view = new DataView(unhex(id.replaceAll("-", "")).buffer);
    const lo = view.getBigUint64(0, true) ^ 0x6782737bea4239b9n;
    const hi = view.getBigUint64(8, true) ^ 0xaf56bc3b0996523an;
    const product = lo * hi;
    let acc = (16n + swap(lo) + hi + ((product & mask) ^ (product >> 64n))) & mask;
    acc ^= acc >> 37n;
    acc = (acc * 0x165667919E3779F9n) & mask;
    acc ^= acc >> 32n;
    assertEquals(workerIdOf(id), acc);
  }
});

Deno.test("encodeWorkerAddress writes arrays of ints, and decodeWorkerAddress reads them or bin", () => {
  const entry = unhex("9195a0a93132372e302e302e31cd15b320c0");
  const golden = "81a3746370dc0012cc91cc95cca0cca93132372e302e302e31cccd15ccb320ccc0";
  assertEquals(hex(encodeWorkerAddress(new Map([["tcp", entry]]))), golden);
  assertEquals(decodeWorkerAddress(unhex(golden)).get("tcp"), entry);
  assertEquals(decodeWorkerAddress(unhex("81a3746370c4020102")).get("tcp"), new Uint8Array([1, 2]));
  assertEquals(hex(encodeWorkerAddress(new Map())), "80");
  assertEquals(decodeWorkerAddress(unhex("80")).size, 0);
});

Deno.test("decodeWorkerAddress refuses what is no address", () => {
  const bad = [
    "",
    "01",
    "9101",
    "81a3746370a161",
    "81a374637091",
    "81a3746370919101",
    "81a374637091cd0100",
  ];
  for (const text of bad) {
    assertThrows(() => decodeWorkerAddress(unhex(text)), TokenplaneError, undefined, text);
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (noise) => {
      try {
        decodeWorkerAddress(noise);
      } catch (caught) {
        assert(caught instanceof TokenplaneError);
      }
    }),
    { numRuns: 500 },
  );
});

Deno.test("peerInfoToJson writes the JSON of the specification, and peerInfoFromJson reads it", () => {
  const info = { instanceId: ID, workerAddress: unhex("80") };
  const text = '{"instance_id":"01234567-89ab-4cde-8f01-23456789abcd","worker_address":[128]}';
  assertEquals(new TextDecoder().decode(stringifyJson(peerInfoToJson(info))), text);
  assertEquals(peerInfoFromJson({ ...JSON.parse(text), later: 1 }), info);
  const bad: unknown[] = [
    null,
    [],
    {},
    { instance_id: ID },
    { instance_id: ID, worker_address: [] },
    { instance_id: ID, worker_address: "gA==" },
    { instance_id: ID, worker_address: [256] },
    { instance_id: ID, worker_address: [128.5] },
    { instance_id: ID.toUpperCase(), worker_address: [128] },
    { instance_id: ID, worker_address: new Array(70_000).fill(0) },
  ];
  for (const value of bad) assertThrows(() => peerInfoFromJson(value), TokenplaneError);
});

Deno.test("parseJson and stringifyJson keep every u64", () => {
  const text =
    '{"hi":16045690981402826360,"lo":42,"max":18446744073709551615,"low":-9223372036854775808,"x":[1.5,1e20]}';
  const value = parseJson(new TextEncoder().encode(text));
  assertEquals(value, {
    hi: 16045690981402826360n,
    lo: 42,
    max: 18446744073709551615n,
    low: -9223372036854775808n,
    x: [1.5, 1e20],
  });
  const back = text.replace("1e20", "100000000000000000000");
  assertEquals(new TextDecoder().decode(stringifyJson(value)), back);
  assertEquals(parseJson(new TextEncoder().encode('["0123456789012345678", 9007199254740993]')), [
    "0123456789012345678",
    9007199254740993n,
  ]);
  assertEquals([parseJson(new Uint8Array(0)), new TextDecoder().decode(stringifyJson(undefined))], [
    null,
    "null",
  ]);
});

Deno.test("parseJson and stringifyJson agree on any value with bigints", () => {
  const leaf = fc.oneof(
    fc.string(),
    fc.boolean(),
    fc.constant(null),
    fc.maxSafeInteger(),
    fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }),
  );
  const value = fc.oneof(
    leaf,
    fc.array(leaf),
    fc.dictionary(fc.string().filter((key) => key !== "__proto__"), leaf),
  );
  fc.assert(fc.property(value, (item) => {
    const seen = parseJson(stringifyJson(item));
    assertEquals(JSON.stringify(seen, textOfBigint), JSON.stringify(item, textOfBigint));
  }));
});

function textOfBigint(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? `${value}n` : value;
}

Deno.test("parseJson refuses what is too large, too deep or no JSON", () => {
  const encode = (text: string): Uint8Array => new TextEncoder().encode(text);
  const bad: [string, Uint8Array, string][] = [
    ["deep", encode("[".repeat(65) + "]".repeat(65)), "too_large"],
    ["deeper than any stack", encode("[".repeat(1_000_000)), "too_large"],
    ["large", new Uint8Array(67_108_865).fill(0x20), "too_large"],
    ["cut", encode('{"a":'), "protocol"],
    ["no UTF-8", new Uint8Array([0x22, 0xff, 0x22]), "protocol"],
    ["two values", encode("1 2"), "protocol"],
  ];
  for (const [name, bytes, code] of bad) {
    const error = assertThrows(() => parseJson(bytes), TokenplaneError, undefined, name);
    assertEquals((error as TokenplaneError).code, code, name);
  }
  assertEquals(parseJson(encode('["' + "[{".repeat(100) + '\\"[", 1]')), ["[{".repeat(100) + '"[', 1]);
});
