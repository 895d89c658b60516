/**
 * A file of API keys: one a line, its own limits behind it, its name in a comment at the end.
 *
 * ```text
 * # keys of the two teams
 * sk-7Jq2v9 rpm=600 concurrent=8   # search
 * sk-P0x41c                        # billing
 * ```
 *
 * A limit that a line does not name is that of the settings; 0 is none.
 */
import { TokenplaneError } from "../../errors.ts";
import { entryFor, type KeyEntry, type KeyLimits, MAX_CONCURRENT, MAX_KEYS, MAX_RPM } from "./key_entry.ts";

/** Of one key, in characters; it has to fit a request's head. */
const MAX_KEY_CHARS = 1_024;
const MAX_NAME_CHARS = 64;
/** What can stand in a header behind `Bearer `. */
const KEY = /^[\x21-\x7e]+$/;
/** Nothing that a terminal or a parser of logs would obey. */
const NAME = /^[^\p{C}\p{Zl}\p{Zp}]+$/u;

/** The limits that a line may set, by their word. */
const LIMITS = Object.freeze({ rpm: MAX_RPM, concurrent: MAX_CONCURRENT });

/**
 * Reads the file's text. Throws `invalid_config`, whose message names the line and nothing that stands in it.
 *
 * @param file what to call it: `--api-key-file "PATH"`
 * @param defaults for a line that names no limits
 */
export function parseKeyFile(text: string, file: string, defaults: KeyLimits): KeyEntry[] {
  const entries: KeyEntry[] = [];
  const lineOf = new Map<string, number>();
  for (const [index, line] of text.replace(/^\ufeff/, "").split("\n").entries()) {
    const refuse = (why: string) =>
      new TokenplaneError("invalid_config", `Cannot use ${file}: line ${index + 1}: ${why}`, {
        scope: "process",
      });
    // A key may hold the sign of a comment, but nothing begins with it.
    const [, content = "", comment] = /^(.*?)(?:(?<!\S)#(.*))?$/s.exec(line.trim())!;
    const [key, ...words] = content.trim().split(/[ \t]+/);
    if (key === undefined || key === "") continue;
    if (entries.length === MAX_KEYS) throw refuse(`there are more keys than ${MAX_KEYS}`);
    if (!KEY.test(key)) throw refuse("a key must be printable ASCII without spaces");
    if (key.length > MAX_KEY_CHARS) throw refuse(`the key is longer than ${MAX_KEY_CHARS} characters`);
    const entry = entryFor(key, readLimits(words, defaults, refuse), readName(comment, refuse));
    const first = lineOf.get(entry.digest);
    if (first !== undefined) throw refuse(`it holds the key of line ${first} again`);
    lineOf.set(entry.digest, index + 1);
    entries.push(entry);
  }
  return entries;
}

function readLimits(
  words: readonly string[],
  defaults: KeyLimits,
  refuse: (why: string) => TokenplaneError,
): KeyLimits {
  const limits: { rpm?: number; concurrent?: number } = {};
  for (const word of words) {
    const [, name, digits] = /^(rpm|concurrent)=(\d{1,7})$/.exec(word) ?? [];
    if (name !== "rpm" && name !== "concurrent") {
      throw refuse(
        `behind the key may stand rpm=N (0 to ${MAX_RPM}), concurrent=N (0 to ${MAX_CONCURRENT}) and a comment`,
      );
    }
    const value = Number(digits);
    if (value > LIMITS[name]) throw refuse(`${name} must be a whole number from 0 to ${LIMITS[name]}`);
    if (limits[name] !== undefined) throw refuse(`${name} is given twice`);
    limits[name] = value;
  }
  return { ...defaults, ...limits };
}

function readName(comment: string | undefined, refuse: (why: string) => TokenplaneError): string | null {
  const name = comment?.trim() ?? "";
  if (name === "") return null;
  if ([...name].length > MAX_NAME_CHARS || !NAME.test(name)) {
    throw refuse(`the comment, which names the client, must be 1 to ${MAX_NAME_CHARS} printable characters`);
  }
  return name;
}
