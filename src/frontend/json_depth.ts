/** Nesting of JSON text, measured before anything is built from it. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Whether arrays and objects of a JSON text nest deeper than `limit`. Text that is no JSON gets some answer. */
export function isDeeperThan(text: Uint8Array, limit: number): boolean {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const byte = text[i]!;
    if (byte === QUOTE) {
      for (i++; i < text.length && text[i] !== QUOTE; i++) if (text[i] === BACKSLASH) i++;
    } else if ((byte | 0x20) === 0x7b) { // `[` and `{` differ in one bit
      if (++depth > limit) return true;
    } else if ((byte | 0x20) === 0x7d) {
      depth--;
    }
  }
  return false;
}
