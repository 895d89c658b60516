import { assertEquals, assertThrows } from "@std/assert";
import { parseFlags, toNumbers } from "../../bench/support/flags.ts";
import { selectArms } from "../../bench/relay/arms/mod.ts";

const TABLE = { streams: { default: 512, help: "" }, arms: { default: "all", help: "" } } as const;

Deno.test("parseFlags gives each flag the type of its default", () => {
  assertEquals(parseFlags([], TABLE), { streams: 512, arms: "all" });
  assertEquals(parseFlags(["--streams", "64", "--arms=7"], TABLE), { streams: 64, arms: "7" });
});

Deno.test("parseFlags names the flag that is wrong", () => {
  assertThrows(() => parseFlags(["--stream", "1"], TABLE), RangeError, '"--stream"');
  assertThrows(() => parseFlags(["--streams", "many"], TABLE), RangeError, '"--streams" is "many"');
  assertThrows(() => parseFlags(["--streams=-1"], TABLE), RangeError, "zero or more");
});

Deno.test("toNumbers reads a list and refuses an empty place", () => {
  assertEquals(toNumbers("step-ms", "20,5"), [20, 5]);
  assertThrows(() => toNumbers("step-ms", "20,"), RangeError, '"--step-ms"');
});

Deno.test("selectArms keeps the given order and names what is not known", () => {
  assertEquals(selectArms("nginx,floor").map(({ name }) => name), ["nginx", "floor"]);
  assertThrows(() => selectArms("nginx,apache"), RangeError, 'Unknown arm "apache"');
});
