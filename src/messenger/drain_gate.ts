/** Which messages a draining node still takes: whatever its running streams need to finish. */

const EXEMPT_NAMES = ["_stream_batch", "_stream_stop", "_stream_cancel"];
const EXEMPT_PREFIXES = ["_rv_", "_anchor_"];

const encoder = new TextEncoder();
const NAMES = EXEMPT_NAMES.map((name) => encoder.encode(name));
const PREFIXES = EXEMPT_PREFIXES.map((name) => encoder.encode(name));

/** Whether the message with this request header passes the gate. */
export function isExemptFromDrain(header: Uint8Array): boolean {
  const length = header.length < 20 ? 0 : header[18]! | (header[19]! << 8);
  if (header.length < 20 + length) return false;
  return NAMES.some((name) => name.length === length && startsWith(header, name)) ||
    PREFIXES.some((prefix) => prefix.length <= length && startsWith(header, prefix));
}

function startsWith(header: Uint8Array, name: Uint8Array): boolean {
  for (let i = 0; i < name.length; i++) if (header[20 + i] !== name[i]) return false;
  return true;
}
