/** The little of IP addresses that choosing an endpoint needs. */

/** Whether the text is in IPv6 notation. */
export function isIpv6(address: string): boolean {
  return address.includes(":");
}

/** Whether the address never leaves the machine. */
export function isLoopback(address: string): boolean {
  return address === "localhost" || address === "::1" || address.startsWith("127.");
}

/** Whether both addresses agree in their first `prefix` bits. Families never match, nor does what is no address. */
export function isInSubnet(a: string, b: string, prefix: number): boolean {
  if (isIpv6(a) !== isIpv6(b)) return false;
  const x = toBytes(a);
  const y = toBytes(b);
  if (x === null || y === null) return false;
  for (let bit = 0; bit < Math.min(prefix, 8 * x.length); bit += 8) {
    const mask = prefix - bit >= 8 ? 0xff : (0xff << (8 - (prefix - bit))) & 0xff;
    if (((x[bit >> 3]! ^ y[bit >> 3]!) & mask) !== 0) return false;
  }
  return true;
}

function toBytes(address: string): number[] | null {
  if (!isIpv6(address)) {
    const parts = address.split(".");
    if (parts.length !== 4 || !parts.every((part) => /^\d{1,3}$/.test(part) && Number(part) < 256)) {
      return null;
    }
    return parts.map(Number);
  }
  const bare = address.split("%")[0]!;
  const [left, right, extra] = bare.split("::");
  if (extra !== undefined) return null;
  const head = toGroups(left!);
  const tail = right === undefined ? [] : toGroups(right);
  if (head === null || tail === null) return null;
  const missing = 16 - head.length - tail.length;
  if (right === undefined ? missing !== 0 : missing < 0) return null;
  return [...head, ...new Array<number>(missing).fill(0), ...tail];
}

function toGroups(text: string): number[] | null {
  if (text === "") return [];
  const bytes: number[] = [];
  for (const group of text.split(":")) {
    if (group.includes(".")) {
      const v4 = toBytes(group);
      if (v4 === null) return null;
      bytes.push(...v4);
    } else {
      if (!/^[0-9a-fA-F]{1,4}$/.test(group)) return null;
      const value = Number.parseInt(group, 16);
      bytes.push(value >> 8, value & 0xff);
    }
  }
  return bytes;
}
