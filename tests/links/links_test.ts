/** Holds for the real `jsr:@std/…` packages and for the stand-ins of `links/` alike. */
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { deadline, delay, retry } from "@std/async";
import { parseArgs } from "@std/cli/parse-args";
import { decode, encode } from "@std/msgpack";

Deno.test("msgpack keeps 64-bit integers, bytes and nested maps", () => {
  const value = {
    a: 1,
    b: "x",
    c: [true, null, 1.5],
    big: 2n ** 64n - 1n,
    low: -(2n ** 63n),
    bin: new Uint8Array([1, 2]),
  };
  assertEquals(decode(encode(value)) as unknown, value);
  assertEquals([...encode({ tcp: [255] })], [0x81, 0xa3, 0x74, 0x63, 0x70, 0x91, 0xcc, 0xff]);
  assertEquals([...encode(5n)], [0xcf, 0, 0, 0, 0, 0, 0, 0, 5]);
  assertEquals(encode(2 ** 40)[0], 0xcb);
});

Deno.test("msgpack refuses what it cannot represent, and bytes that are missing or left over", () => {
  assertThrows(() => encode(2n ** 64n));
  assertThrows(() => encode(undefined as never));
  assertThrows(() => encode(new Map() as never));
  assertThrows(() => decode(new Uint8Array([0x92, 0x01])));
  assertThrows(() => decode(new Uint8Array([0x01, 0x01])));
  assertThrows(() => decode(new Uint8Array([])));
});

Deno.test("parseArgs collects, overwrites, leaves a missing value empty and reports the unknown", () => {
  const unknown: string[] = [];
  const parsed: Record<string, unknown> = parseArgs(
    ["run", "--many", "a", "--many=b", "--one", "1", "--one", "2", "--empty", "--flag", "--what=x", "7"],
    {
      string: ["many", "one", "empty", "_"],
      collect: ["many"],
      boolean: ["flag"],
      unknown: (arg: string) => arg.startsWith("-") ? (unknown.push(arg), false) : true,
    },
  );
  assertEquals(parsed, { _: ["run", "7"], many: ["a", "b"], one: "2", empty: "", flag: true });
  assertEquals(unknown, ["--what=x"]);
});

Deno.test("deadline, delay and retry end as promised", async () => {
  assertEquals(await deadline(Promise.resolve(1), 1000), 1);
  const late = await assertRejects(() => deadline(new Promise(() => {}), 5), DOMException);
  assertEquals(late.name, "TimeoutError");
  const stop = AbortSignal.abort(new RangeError("Stop now"));
  await assertRejects(() => delay(60_000, { signal: stop }), RangeError, "Stop now");
  let calls = 0;
  const result = await retry(() => {
    if (++calls < 3) throw new Error("Not yet");
    return calls;
  }, { minTimeout: 1, maxTimeout: 2 });
  assertEquals(result, 3);
});
