/** The id that a request has in logs, at the worker and in `x-request-id`. */

const MAX_REQUEST_ID_CHARS = 128;
const VISIBLE_ASCII = /^[\x21-\x7e]+$/;

/** The client's id when it is short visible ASCII, else a new one. */
export function requestIdOf(header: string | string[] | undefined): string {
  const isUsable = typeof header === "string" && header.length <= MAX_REQUEST_ID_CHARS &&
    VISIBLE_ASCII.test(header);
  return isUsable ? header : crypto.randomUUID();
}
