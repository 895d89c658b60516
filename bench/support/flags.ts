/** Flags of the benchmark programs: each has a default, and the default's type is the flag's. */

import { parseArgs } from "@std/cli";

/** One flag: its default and a line of help with the unit. */
export interface Flag<T extends string | number> {
  readonly default: T;
  readonly help: string;
}

/** Flags by name, as they are written on the command line. */
export type FlagTable = Readonly<Record<string, Flag<string> | Flag<number>>>;

/** The values of a table of flags. */
export type FlagValues<F extends FlagTable> = {
  readonly [K in keyof F]: F[K]["default"] extends number ? number : string;
};

/** Reads flags. Throws a RangeError that names the flag for one that is unknown or not a number of zero or more. */
export function parseFlags<const F extends FlagTable>(args: readonly string[], table: F): FlagValues<F> {
  const names = Object.keys(table);
  const parsed = parseArgs([...args], {
    string: names,
    unknown: (arg) => {
      throw new RangeError(
        `Unknown argument "${arg}": allowed are ${names.map((name) => `--${name}`).join(", ")}`,
      );
    },
  });
  const values: Record<string, string | number> = {};
  for (const [name, flag] of Object.entries(table)) {
    const text = parsed[name];
    if (typeof text !== "string") values[name] = flag.default;
    else values[name] = typeof flag.default === "number" ? toNumber(name, text) : text;
  }
  return values as FlagValues<F>;
}

/** The help text of a table of flags. */
export function helpText(usage: string, table: FlagTable): string {
  const lines = Object.entries(table).map(([name, flag]) =>
    `  --${`${name} ${flag.default}`.padEnd(34)} ${flag.help}`
  );
  return [`usage: ${usage} [flags], defaults shown`, ...lines].join("\n");
}

/** A list of numbers as "20,5". Throws a RangeError that names the flag. */
export function toNumbers(name: string, text: string): number[] {
  return text.split(",").map((part) => toNumber(name, part));
}

function toNumber(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0) {
    throw new RangeError(`Flag "--${name}" is "${text}": allowed are numbers of zero or more`);
  }
  return value;
}
