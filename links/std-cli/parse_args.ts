/** The part of `@std/cli/parse-args` in use here, on top of minimist. */
// @ts-types="npm:@types/minimist@1.2.5"
import minimist from "minimist";

/** Options of {@linkcode parseArgs}. */
export interface ParseOptions {
  /** Flags without a value. */
  boolean?: readonly string[];
  /** Flags whose value stays a string; `_` keeps positional arguments strings. */
  string?: readonly string[];
  /** Flags that may be repeated; always an array. Any other flag that is repeated keeps its last value. */
  collect?: readonly string[];
  alias?: Record<string, string | readonly string[]>;
  default?: Record<string, unknown>;
  /** Treat everything behind the first positional argument as positional. */
  stopEarly?: boolean;
  /** Called for each argument that is not declared; false leaves it out of the result. */
  unknown?: (arg: string) => unknown;
}

/** What {@linkcode parseArgs} found: flags by name, positional arguments in `_`. */
export interface Args {
  [flag: string]: unknown;
  _: Array<string | number>;
}

/** Parses command line arguments. */
export function parseArgs(args: readonly string[], options: ParseOptions = {}): Args {
  const { unknown, collect = [], ...rest } = options;
  const parsed = minimist(dropNegations(args, unknown), {
    boolean: [...rest.boolean ?? []],
    string: [...rest.string ?? []],
    alias: Object.fromEntries(
      Object.entries(rest.alias ?? {}).map((
        [key, names],
      ) => [key, typeof names === "string" ? names : [...names]]),
    ),
    default: rest.default ?? {},
    stopEarly: rest.stopEarly ?? false,
    ...(unknown === undefined ? {} : { unknown: (arg: string) => unknown(arg) !== false }),
  });
  const result: Args = { _: parsed._ };
  for (const [flag, value] of Object.entries(parsed)) {
    if (flag === "_") continue;
    result[flag] = Array.isArray(value) && !collect.includes(flag) ? value.at(-1) : value;
  }
  for (const flag of collect) {
    const value = result[flag];
    result[flag] = value === undefined ? [] : Array.isArray(value) ? value : [value];
  }
  return result;
}

/** minimist turns `--no-x` into x = false for every x; std does so only for flags declared negatable. */
function dropNegations(args: readonly string[], unknown: ParseOptions["unknown"]): string[] {
  const end = args.indexOf("--");
  return args.filter((arg, index) => {
    if (!arg.startsWith("--no-") || (end >= 0 && index > end)) return true;
    unknown?.(arg);
    return false;
  });
}
