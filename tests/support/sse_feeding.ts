/** Feeds a parser the same bytes cut in every way: whole, byte by byte, and in two at each position. */

/** All the ways to cut `bytes`, as lists of pieces, each a copy of its own. */
export function* everyCut(bytes: Uint8Array): Generator<{ name: string; pieces: Uint8Array[] }> {
  yield { name: "whole", pieces: [bytes.slice()] };
  yield { name: "byte by byte", pieces: [...bytes].map((byte) => new Uint8Array([byte])) };
  for (let at = 1; at < bytes.length; at++) {
    yield { name: `cut at ${at}`, pieces: [bytes.slice(0, at), bytes.slice(at)] };
  }
}

/** The framings that servers use; `frame` makes the text of events given as data. */
export const FRAMINGS: { name: string; frame(events: string[]): string }[] = [
  { name: "LF", frame: (events) => events.map((data) => `data: ${data}\n\n`).join("") },
  { name: "CRLF", frame: (events) => events.map((data) => `data: ${data}\r\n\r\n`).join("") },
  { name: "CR", frame: (events) => events.map((data) => `data: ${data}\r\r`).join("") },
  { name: "no space", frame: (events) => events.map((data) => `data:${data}\n\n`).join("") },
  { name: "BOM", frame: (events) => "\ufeff" + events.map((data) => `data: ${data}\n\n`).join("") },
  {
    name: "comments and other fields",
    frame: (events) =>
      ": hello\n\n" + events.map((data) => `: ping\nid: 7\nevent: x\ndata: ${data}\n\n:\n\n`).join(""),
  },
  {
    name: "mixed line ends",
    frame: (events) =>
      events.map((data, i) => `data: ${data}${["\n\r\n", "\r\n\n", "\r\n\r", "\r\r\n"][i % 4]}`).join(""),
  },
];
