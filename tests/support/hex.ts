/** Golden bytes, readable. */

/** Bytes of hexadecimal text; white space is ignored. */
export function unhex(text: string): Uint8Array<ArrayBuffer> {
  const digits = text.replaceAll(/\s+/g, "");
  if (digits.length % 2 !== 0 || /[^0-9a-f]/i.test(digits)) {
    throw new Error(`Cannot read "${digits}": it is no hex`);
  }
  const bytes = new Uint8Array(digits.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = Number.parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** Hexadecimal text of bytes, lower case. */
export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += byte.toString(16).padStart(2, "0");
  return text;
}
