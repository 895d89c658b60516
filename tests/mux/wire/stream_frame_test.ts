import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import fc from "fast-check";
import {
  classifyFrame,
  decodeErrorText,
  DETACHED,
  DROPPED,
  encodeSenderError,
  encodeTransportError,
  FINALIZED,
  FrameKind,
  HEARTBEAT,
  isItem,
  isTerminal,
  MAX_ERROR_TEXT_BYTES,
  newItemView,
  readItem,
} from "../../../src/mux/wire/stream_frame.ts";
import { hex, unhex } from "../../support/hex.ts";

const ITEM = "81 a4 4974656d";

/** Classifies a frame that stands in the middle of a larger buffer, so that reading past either end would show. */
function classify(frame: Uint8Array): FrameKind {
  const framed = new Uint8Array(frame.length + 40).fill(0xa9);
  framed.set(frame, 20);
  return classifyFrame(framed, 20, 20 + frame.length);
}

Deno.test("The unit frames are the golden bytes", () => {
  assertEquals(hex(DROPPED), "a744726f70706564");
  assertEquals(hex(DETACHED), "a84465746163686564");
  assertEquals(hex(FINALIZED), "a946696e616c697a6564");
  assertEquals(hex(HEARTBEAT), "a9486561727462656174");
});

Deno.test("encodeTransportError and encodeSenderError write the golden bytes", () => {
  assertEquals(hex(encodeTransportError("boom")), "81ae5472616e73706f72744572726f72a4626f6f6d");
  assertEquals(hex(encodeSenderError("boom")), "81ab53656e6465724572726f72a4626f6f6d");
});

Deno.test("classifyFrame tells every frame and which of them end a slot", () => {
  const cases: [Uint8Array, FrameKind, boolean][] = [
    [unhex(ITEM + "a24869"), FrameKind.item, false],
    [unhex(ITEM + "2a"), FrameKind.item, false],
    [unhex(ITEM + "9305a420746865c0"), FrameKind.item, false],
    [unhex(ITEM + "c40201c8"), FrameKind.item, false],
    [encodeSenderError("soft"), FrameKind.senderError, false],
    [HEARTBEAT, FrameKind.heartbeat, false],
    [DROPPED, FrameKind.dropped, true],
    [DETACHED, FrameKind.detached, true],
    [FINALIZED, FrameKind.finalized, true],
    [encodeTransportError("hard"), FrameKind.transportError, true],
  ];
  for (const [frame, kind, terminal] of cases) {
    assertEquals(classify(frame), kind, hex(frame));
    assertEquals(isTerminal(kind), terminal, hex(frame));
  }
  assertEquals(isTerminal(FrameKind.invalid), false);
});

Deno.test("classifyFrame calls a frame that is cut anywhere invalid, or that goes on", () => {
  const frames = [
    HEARTBEAT,
    DROPPED,
    DETACHED,
    FINALIZED,
    encodeSenderError("boom"),
    encodeTransportError("boom"),
  ];
  for (const frame of frames) {
    for (let length = 0; length < frame.length; length++) {
      assertEquals(
        classify(frame.subarray(0, length)),
        FrameKind.invalid,
        `${hex(frame)} cut at ${length}`,
      );
    }
    assertEquals(classify(new Uint8Array([...frame, 0xc0])), FrameKind.invalid);
  }
  assertEquals(classify(unhex(ITEM)), FrameKind.invalid);
});

Deno.test("classifyFrame calls anything near a frame invalid", () => {
  const cases = {
    "empty": "",
    "nil": "c0",
    "one byte more than Dropped": "a744726f7070656400",
    "another string of Dropped's length": "a744726f70706565",
    "a map of two": "82a44974656d01",
    "an unknown variant": "81a44974656e01",
    "an integer variant": "810001",
    "TransportError with bytes": "81ae5472616e73706f72744572726f72c4026f6f",
    "TransportError with a string cut short": "81ae5472616e73706f72744572726f72a56f6f",
    "TransportError with trailing bytes": "81ae5472616e73706f72744572726f72a16f6f",
  };
  for (const [name, bytes] of Object.entries(cases)) {
    assertEquals(classify(unhex(bytes)), FrameKind.invalid, name);
  }
});

Deno.test("readItem reads data and text and calls every other value other", () => {
  const view = newItemView();
  const cases: [string, string, string][] = [
    ["fixstr", "a24869", "text:4869"],
    ["empty fixstr", "a0", "text:"],
    ["str8", "d9024869", "text:4869"],
    ["str16", "da00024869", "text:4869"],
    ["str32", "db000000024869", "text:4869"],
    ["bin8", "c40201c8", "data:01c8"],
    ["bin16", "c5000201c8", "data:01c8"],
    ["bin32", "c60000000201c8", "data:01c8"],
    ["empty bin8", "c400", "data:"],
    ["array of integers", "9201ccc8", "other:"],
    ["integer", "2a", "other:"],
    ["nil", "c0", "other:"],
    ["map", "80", "other:"],
    ["ext", "d40000", "other:"],
    ["bin8 cut in its size", "c4", "other:"],
    ["bin16 cut in its size", "c500", "other:"],
    ["bin32 cut in its size", "c6000000", "other:"],
    ["str32 cut in its size", "db000000", "other:"],
    ["bin8 one short", "c40301c8", "other:"],
    ["bin8 one too many", "c40101c8", "other:"],
    ["bin32 of 4 GiB", "c6ffffffff01", "other:"],
    ["fixstr one short", "a348", "other:"],
  ];
  for (const [name, value, expected] of cases) {
    const frame = unhex(ITEM + value);
    const framed = new Uint8Array(frame.length + 16).fill(0);
    framed.set(frame, 8);
    const kind = readItem(framed, 8, 8 + frame.length, view);
    assertEquals(`${kind}:${hex(framed.subarray(view.start, view.end))}`, expected, name);
    assertEquals(view.kind, kind, name);
  }
});

Deno.test("readItem and classifyFrame never read outside the frame, whatever its bytes", () => {
  const view = newItemView();
  const near = fc.uint8Array({ maxLength: 30 }).map((bytes) => new Uint8Array([...unhex(ITEM), ...bytes]));
  fc.assert(
    fc.property(fc.oneof(near, fc.uint8Array({ maxLength: 40 })), fc.nat(20), (frame, lead) => {
      const kinds: FrameKind[] = [];
      const items: string[] = [];
      // The same frame amid different neighbours has to read the same.
      for (const fill of [0x00, 0xa9, 0xff]) {
        const framed = new Uint8Array(lead + frame.length + 8).fill(fill);
        framed.set(frame, lead);
        kinds.push(classifyFrame(framed, lead, lead + frame.length));
        if (!isItem(framed, lead, lead + frame.length)) continue;
        const kind = readItem(framed, lead, lead + frame.length, view);
        assert(view.start >= lead && view.start <= view.end && view.end <= lead + frame.length);
        items.push(`${kind} ${view.start} ${view.end}`);
      }
      assertEquals(new Set(kinds).size, 1);
      assertLessOrEqual(new Set(items).size, 1);
    }),
    { numRuns: 1000 },
  );
});

Deno.test("decodeErrorText returns what was encoded, for both kinds", () => {
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 300 }), (text) => {
    const wellFormed = text.toWellFormed();
    for (const frame of [encodeTransportError(text), encodeSenderError(text)]) {
      assertEquals(decodeErrorText(frame, 0, frame.length), wellFormed);
    }
  }));
});

Deno.test("encodeTransportError cuts a long text between characters", () => {
  for (const unit of ["x", "é", "€", "😀"]) {
    for (let pad = 0; pad < 4; pad++) {
      const frame = encodeTransportError("p".repeat(pad) + unit.repeat(MAX_ERROR_TEXT_BYTES));
      assertEquals(classify(frame), FrameKind.transportError);
      const text = decodeErrorText(frame, 0, frame.length);
      const bytes = new TextEncoder().encode(text).length;
      assertLessOrEqual(bytes, MAX_ERROR_TEXT_BYTES);
      assert(bytes > MAX_ERROR_TEXT_BYTES - 4, `${unit} ${pad}: ${bytes}`);
      assertEquals(text, "p".repeat(pad) + unit.repeat([...text].length - pad));
    }
  }
});

Deno.test("decodeErrorText bounds a long text and survives bytes that are not UTF-8", () => {
  const long = new Uint8Array([
    ...unhex("81ae5472616e73706f72744572726f72"),
    ...unhex("da9c40"),
    ...new Array(40_000).fill(97),
  ]);
  assertEquals(decodeErrorText(long, 0, long.length), "a".repeat(MAX_ERROR_TEXT_BYTES));
  // A peer may send more than this side would: the cut must not leave half a character behind.
  const wide = new TextEncoder().encode("pp" + "€".repeat(2_000));
  const size = wide.length.toString(16).padStart(4, "0");
  const frame = new Uint8Array([...unhex(`81ae5472616e73706f72744572726f72da${size}`), ...wide]);
  assertEquals(decodeErrorText(frame, 0, frame.length), "pp" + "€".repeat(1_364));
  const broken = unhex("81ae5472616e73706f72744572726f72 a3 ff62fe");
  assertEquals(decodeErrorText(broken, 0, broken.length), "\ufffdb\ufffd");
  assertEquals(decodeErrorText(FINALIZED, 0, FINALIZED.length), "");
});
