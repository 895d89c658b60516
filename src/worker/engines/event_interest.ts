/** Which events are worth parsing: most tokens say nothing that the tap wants to know. */

const QUOTE = 0x22;
const COLON = 0x3a;
const LETTER_E = 0x65;
const LETTER_F = 0x66;
const LETTER_U = 0x75;
const encoder = new TextEncoder();
const USAGE = encoder.encode('usage"');
const FINISH_REASON = encoder.encode('finish_reason"');
const ERROR = encoder.encode('error"');
const NULL = encoder.encode("null");

/**
 * True when JSON text has a member named `usage`, `finish_reason` or `error` whose value is not null.
 *
 * Works on bytes, without decoding. It may say yes for a member further down (then a parse was in vain); it says no
 * wrongly only for names written with escapes, which no JSON encoder does for these letters.
 */
export function isEventOfInterest(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    if (bytes[at] !== QUOTE) continue;
    const first = bytes[at + 1];
    if (first === LETTER_F) {
      if (hasValue(bytes, at + 1, end, FINISH_REASON)) return true;
    } else if (first === LETTER_U) {
      if (hasValue(bytes, at + 1, end, USAGE)) return true;
    } else if (first === LETTER_E && hasValue(bytes, at + 1, end, ERROR)) return true;
  }
  return false;
}

function hasValue(bytes: Uint8Array, start: number, end: number, name: Uint8Array): boolean {
  if (!startsWith(bytes, start, end, name)) return false;
  let at = skipSpace(bytes, start + name.length, end);
  if (at >= end || bytes[at] !== COLON) return false;
  at = skipSpace(bytes, at + 1, end);
  return at < end && !startsWith(bytes, at, end, NULL);
}

function startsWith(bytes: Uint8Array, start: number, end: number, text: Uint8Array): boolean {
  if (start + text.length > end) return false;
  for (let i = 0; i < text.length; i++) if (bytes[start + i] !== text[i]) return false;
  return true;
}

function skipSpace(bytes: Uint8Array, at: number, end: number): number {
  while (at < end && (bytes[at] === 0x20 || bytes[at] === 0x09 || bytes[at] === 0x0a || bytes[at] === 0x0d)) {
    at++;
  }
  return at;
}
