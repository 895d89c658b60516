import { assert, assertEquals, assertMatch, assertThrows } from "@std/assert";
import fc from "fast-check";
import { TokenplaneError } from "../../../src/errors.ts";
import { digestOf, MAX_KEYS } from "../../../src/frontend/keys/key_entry.ts";
import { parseKeyFile } from "../../../src/frontend/keys/key_file.ts";

const DEFAULTS = { rpm: 60, concurrent: 2 };
const parse = (text: string) => parseKeyFile(text, '--api-key-file "keys"', DEFAULTS);

Deno.test("parseKeyFile reads keys, their limits and their names", () => {
  const text = [
    "\ufeff# the keys of two teams",
    "",
    "sk-one",
    "  sk-two   rpm=600 concurrent=8\t# search  ",
    "sk-three concurrent=0 # Zoë's laptop #2\r",
    "sk-#four",
    "\t# nothing but a comment",
    "sk-five rpm=0 #",
  ].join("\n");
  assertEquals(
    parse(text).map(({ digest, name, rpm, concurrent }) => [digest, name, rpm, concurrent]),
    [
      [digestOf("sk-one"), "key-b40063da", 60, 2],
      [digestOf("sk-two"), "search", 600, 8],
      [digestOf("sk-three"), "Zoë's laptop #2", 60, 0],
      [digestOf("sk-#four"), "key-9a21eaf0", 60, 2],
      [digestOf("sk-five"), "key-471d46a0", 0, 2],
    ],
  );
});

Deno.test("parseKeyFile calls a key without a name by an id that says nothing of it", () => {
  const { name, digest } = parse("sk-secret")[0]!;
  assertMatch(name, /^key-[0-9a-f]{8}$/);
  assert(!digest.includes(name.slice(4)));
  assertEquals(parse("sk-secret")[0]!.name, name);
});

const BAD: readonly [name: string, text: string, message: string][] = [
  ["a key of other characters", "\nsk-sécret", "line 2: a key must be printable ASCII without spaces"],
  ["a long key", "s".repeat(1_025), "line 1: the key is longer than 1024 characters"],
  ["a second word", "sk-secret sk-other", "line 1: behind the key may stand rpm=N (0 to 1000000)"],
  ["an unknown limit", "sk-secret tpm=5", "line 1: behind the key may stand"],
  ["a limit that is no number", "sk-secret rpm=1e3", "line 1: behind the key may stand"],
  ["a negative limit", "sk-secret rpm=-1", "line 1: behind the key may stand"],
  ["a limit out of range", "sk-secret rpm=1000001", "line 1: rpm must be a whole number from 0 to 1000000"],
  ["a limit twice", "sk-secret rpm=1 rpm=1", "line 1: rpm is given twice"],
  ["a key twice", "sk-secret\n# between\nsk-secret # b", "line 3: it holds the key of line 1 again"],
  [
    "a name with a control character",
    "sk-secret # a\x1bb",
    "line 1: the comment, which names the client, must be",
  ],
  ["a long name", `sk-secret # ${"n".repeat(65)}`, "line 1: the comment, which names the client, must be"],
  [
    "too many keys",
    Array.from({ length: MAX_KEYS + 1 }, (_, i) => `sk-secret${i}`).join("\n"),
    "line 1025: there are more keys than 1024",
  ],
];
for (const [name, text, message] of BAD) {
  Deno.test(`parseKeyFile refuses ${name}, and says nothing of the key`, () => {
    const error = assertThrows(
      () => parse(text),
      TokenplaneError,
      `Cannot use --api-key-file "keys": ${message}`,
    );
    assertEquals([error.code, error.message.includes("secret"), error.message.includes("\n")], [
      "invalid_config",
      false,
      false,
    ]);
  });
}

Deno.test("parseKeyFile reads back whatever has been written by its rules", () => {
  const visible = fc.string({
    unit: fc.integer({ min: 0x21, max: 0x7e }).map((c) => String.fromCharCode(c)),
    minLength: 1,
  });
  const entry = fc.record({
    key: visible.filter((key) => !key.startsWith("#")),
    rpm: fc.option(fc.nat(1_000_000)),
    concurrent: fc.option(fc.nat(1_048_576)),
    name: fc.option(visible.map((text) => text.slice(0, 64))),
    space: fc.constantFrom(" ", "\t", "   "),
    end: fc.constantFrom("\n", "\r\n", "\n\n", "\n# between\n"),
  });
  fc.assert(fc.property(fc.uniqueArray(entry, { selector: (one) => one.key, maxLength: 20 }), (entries) => {
    const text = entries.map(({ key, rpm, concurrent, name, space, end }) =>
      key + (rpm === null ? "" : `${space}rpm=${rpm}`) +
      (concurrent === null ? "" : `${space}concurrent=${concurrent}`) +
      (name === null ? "" : `${space}#${name}`) + end
    ).join("");
    const read = parse(text);
    assertEquals(read.length, entries.length);
    for (const [i, { key, rpm, concurrent, name }] of entries.entries()) {
      assertEquals([read[i]!.digest, read[i]!.rpm, read[i]!.concurrent], [
        digestOf(key),
        rpm ?? DEFAULTS.rpm,
        concurrent ?? DEFAULTS.concurrent,
      ]);
      if (name !== null) assertEquals(read[i]!.name, name);
    }
  }));
});

Deno.test("parseKeyFile refuses or reads any text, in one line that shows no part of it", () => {
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 200 }), (text) => {
    try {
      parse(text);
    } catch (caught) {
      assert(caught instanceof TokenplaneError);
      assertMatch(caught.message, /^Cannot use --api-key-file "keys": line \d+: [^\n]+$/);
    }
  }));
});
