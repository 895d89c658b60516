import { assertEquals } from "@std/assert";
import { copyBytes } from "../src/bytes.ts";

Deno.test("copyBytes copies exactly its range at every length around the change of method", () => {
  const source = Uint8Array.from({ length: 128 }, (_, i) => i + 1);
  for (let n = 0; n <= 100; n++) {
    const target = new Uint8Array(130);
    copyBytes(target, 5, source, 3, 3 + n);
    assertEquals(target.slice(5, 5 + n), source.slice(3, 3 + n));
    assertEquals(target.filter((byte) => byte !== 0).length, n);
  }
});

Deno.test("copyBytes copies a whole source, short or long", () => {
  for (const length of [0, 1, 48, 49, 1_000]) {
    const source = Uint8Array.from({ length }, (_, index) => index % 255 + 1);
    const target = new Uint8Array(length + 10);
    copyBytes(target, 5, source, 0, length);
    assertEquals(target.subarray(5, 5 + length), source);
    assertEquals([target[4], target[5 + length]], [0, 0]);
  }
});
