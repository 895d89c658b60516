/** `host:port`, as flags and worker registrations write it. */

/** An address to listen on or to dial. IPv6 hosts stand without brackets. */
export interface HostPort {
  readonly host: string;
  readonly port: number;
}

const HOST_NAME = /^(?=.{1,253}$)[a-zA-Z0-9_](?:[a-zA-Z0-9_-]{0,62})(?:\.[a-zA-Z0-9_-]{1,63})*\.?$/;
const IPV6 = /^[0-9a-fA-F:.]{2,45}(?:%[0-9a-zA-Z._-]{1,32})?$/;

/**
 * Reads `host:port`, `[ipv6]:port` or `:port` (then the host is `anyHost`). Null when it is none of them.
 */
export function parseHostPort(text: string, anyHost = "0.0.0.0"): HostPort | null {
  const match = /^(?:\[([^\]]*)\]|([^:[\]]*)):(\d{1,5})$/.exec(text);
  if (match === null) return null;
  const [, bracketed, plain, digits] = match;
  const port = Number(digits);
  if (port > 65_535) return null;
  if (bracketed !== undefined) return isIpv6(bracketed) ? { host: bracketed, port } : null;
  if (plain === undefined || plain === "") return { host: anyHost, port };
  return HOST_NAME.test(plain) && isPlausibleV4(plain) ? { host: plain, port } : null;
}

/** The form that {@linkcode parseHostPort} reads. */
export function formatHostPort(address: HostPort): string {
  return address.host.includes(":") ? `[${address.host}]:${address.port}` : `${address.host}:${address.port}`;
}

/** Whether a host is this machine to itself alone; `localhost` is, an unspecified address is so only to dial. */
export function isLoopbackHost(host: string): boolean {
  return /^(?:localhost\.?|127(?:\.\d+){3}|::1|::ffff:127(?:\.\d+){3})$/i.test(host);
}

/** Whether a host is an address, not a name for a name server. */
export function isIpHost(host: string): boolean {
  return host.includes(":") || /^[\d.]+$/.test(host);
}

function isIpv6(text: string): boolean {
  // The URL parser is the platform's own judge of IPv6; it only does not know zones.
  return IPV6.test(text) && URL.canParse(`http://[${text.replace(/%.*$/, "")}]/`);
}

/** Four numbers with dots are an address, not a name: `300.1.1.1` must not go to a name server. */
function isPlausibleV4(text: string): boolean {
  return !/^[\d.]+$/.test(text) || /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/.test(text);
}
