/** From the text of a flag or variable to a value, and back to words. */
import { parseHostPort } from "./host_port.ts";
import type { Setting } from "./setting.ts";

/** What {@linkcode parseValue} gives: the value, or the allowed values in words. */
export type Parsed = { readonly ok: true; readonly value: unknown } | { readonly ok: false };

const REFUSED: Parsed = Object.freeze({ ok: false });
// deno-lint-ignore no-control-regex
const CONTROL = /[\x00-\x1f\x7f]/;
/** Longest text of one value in characters; a longer one is refused unread. */
const MAX_VALUE_LENGTH = 4_096;

/** Reads one value of a setting. */
export function parseValue(setting: Setting, text: string): Parsed {
  if (text === "" || text.length > MAX_VALUE_LENGTH || CONTROL.test(text)) return REFUSED;
  switch (setting.kind) {
    case "int":
      return /^-?\d{1,16}$/.test(text) ? inRange(Number(text), setting) : REFUSED;
    case "number":
      return /^-?\d{1,16}(?:\.\d{1,9})?$/.test(text) ? inRange(Number(text), setting) : REFUSED;
    case "choice":
      return setting.choices.includes(text) ? accepted(text) : REFUSED;
    case "address": {
      const address = parseHostPort(text);
      return address === null || (address.port === 0 && !setting.portZero) ? REFUSED : accepted(address);
    }
    case "url":
      return parseUrl(text);
    case "text": {
      if (text.length > setting.maxLength) return REFUSED;
      return setting.pattern === undefined || setting.pattern.regex.test(text) ? accepted(text) : REFUSED;
    }
    case "secret":
      // The characters of a header value without spaces, which is where a key travels.
      return /^[\x21-\x7e]+$/.test(text) ? accepted(text) : REFUSED;
  }
}

/** The allowed values of a setting, to stand behind "allowed:". */
export function allowedValues(setting: Setting): string {
  switch (setting.kind) {
    case "int":
      return `whole numbers from ${setting.min} to ${setting.max}${unit(setting.unit)}`;
    case "number":
      return `numbers from ${setting.min} to ${setting.max}${unit(setting.unit)}`;
    case "choice":
      return setting.choices.map((choice) => `"${choice}"`).join(", ");
    case "address":
      return `HOST:PORT, [IPV6]:PORT or :PORT with a port from ${setting.portZero ? 0 : 1} to 65535`;
    case "url":
      return 'a URL such as "http://127.0.0.1:8080/v1", without user, query or fragment';
    case "text":
      return setting.pattern?.says ??
        `text of 1 to ${setting.maxLength} characters without control characters`;
    case "secret":
      return "printable ASCII without spaces";
  }
}

/** A value for an error message: quoted, on one line, shortened, without secrets. */
export function shownValue(setting: Setting | null, text: string): string {
  if (setting?.kind === "secret") return "(hidden)";
  const safe = text.replace(/\/\/[^/@\s]*@/g, "//(hidden)@");
  return JSON.stringify(safe.length > 80 ? `${safe.slice(0, 80)}…` : safe);
}

function accepted(value: unknown): Parsed {
  return { ok: true, value };
}

function inRange(value: number, range: { readonly min: number; readonly max: number }): Parsed {
  return value >= range.min && value <= range.max ? accepted(value) : REFUSED;
}

function unit(text: string): string {
  return text === "" ? "" : ` (${text})`;
}

function parseUrl(text: string): Parsed {
  if (!URL.canParse(text) || !/^https?:\/\//i.test(text)) return REFUSED;
  const url = new URL(text);
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") return REFUSED;
  return accepted(url.href.replace(/\/+$/, ""));
}
