/**
 * From arguments and environment to settings.
 *
 * A flag wins over its environment twin, that over an alias, that over the default. Everything that is wrong stops here
 * with one {@linkcode TokenplaneError} of code `invalid_config` whose message is one line.
 */
import { parseArgs } from "@std/cli/parse-args";
import { TokenplaneError } from "../errors.ts";
import { findContradiction } from "./rules.ts";
import { SETTINGS, type SettingsByMode } from "./schema/mod.ts";
import { envOf, isRepeatable, keyOf, type Mode, MODES, type Setting } from "./setting.ts";
import { suggest } from "./suggest.ts";
import { allowedValues, parseValue, shownValue } from "./values.ts";

/** What the command line asks for. */
export type Command =
  | { readonly kind: "help"; readonly mode: Mode | null }
  | { readonly kind: "version" }
  | { [M in Mode]: { readonly kind: M; readonly settings: SettingsByMode[M] } }[Mode];

/** The environment, as a plain record. */
export type Environment = Readonly<Record<string, string | undefined>>;

const ENV_PREFIX = "TOKENPLANE_";

/** Reads the command line. Throws `invalid_config`. */
export function resolveCommand(args: readonly string[], env: Environment): Command {
  const [first, ...rest] = args;
  if (first === undefined || first === "--help" || first === "-h" || first === "help") {
    return { kind: "help", mode: null };
  }
  if (first === "--version" || first === "-V" || first === "version") return { kind: "version" };
  const mode = MODES.find((one) => one === first);
  if (mode === undefined) {
    throw refuse(
      `run ${shownValue(null, first)}: allowed are ${MODES.join(", ")}, --help, --version${
        didYouMean(first, MODES, "")
      }`,
    );
  }
  if (asksForHelp(rest)) return { kind: "help", mode };
  return { kind: mode, settings: resolveSettings(mode, rest, env) } as Command;
}

/** Settings of one mode. Throws `invalid_config`. */
export function resolveSettings<M extends Mode>(
  mode: M,
  args: readonly string[],
  env: Environment,
): SettingsByMode[M] {
  const settings = settingsOf(mode);
  const flags = readFlags(mode, settings, args);
  checkEnvironmentNames(env);
  const values: Record<string, unknown> = {};
  const names = new Map<string, string>();
  for (const setting of settings) {
    const given = flags.get(setting.flag) ?? fromEnvironment(setting, env);
    if (given !== null) names.set(setting.flag, given.name);
    values[keyOf(setting)] = given === null ? defaultOf(setting) : readGiven(setting, given);
  }
  const contradiction = findContradiction({ mode, values, names }, settings);
  if (contradiction !== null) throw refuse(`use ${contradiction}`);
  return values as unknown as SettingsByMode[M];
}

/** The settings that a mode takes, in order. */
export function settingsOf(mode: Mode): readonly Setting[] {
  return SETTINGS.filter((setting) => setting.modes.includes(mode));
}

interface GivenTexts {
  /** `--flag` or the variable's name. */
  readonly name: string;
  readonly texts: readonly string[];
}

function readFlags(
  mode: Mode,
  settings: readonly Setting[],
  args: readonly string[],
): Map<string, GivenTexts> {
  const flags = settings.map((setting) => setting.flag);
  const parsed: Record<string, unknown> = parseArgs([...args], {
    string: [...flags, "_"],
    // All of them, so that one given twice is seen and not silently the last.
    collect: flags,
    unknown: (arg: string) => {
      throw refuseArgument(mode, flags, arg);
    },
  });
  const found = new Map<string, GivenTexts>();
  for (const setting of settings) {
    const texts = parsed[setting.flag] as readonly string[] | undefined;
    if (texts === undefined || texts.length === 0) continue;
    const name = `--${setting.flag}`;
    if (texts.length > 1 && !isRepeatable(setting)) throw refuse(`use ${name} twice: it takes one value`);
    found.set(setting.flag, { name, texts });
  }
  // What stands behind a lone `--` reaches neither a flag nor `unknown`.
  const [positional] = (parsed["_"] ?? []) as readonly unknown[];
  if (positional !== undefined) throw refuseArgument(mode, flags, String(positional));
  return found;
}

function refuseArgument(mode: Mode, flags: readonly string[], arg: string): TokenplaneError {
  if (!arg.startsWith("-") || arg === "-") {
    return refuse(
      `take ${shownValue(null, arg)}: "${mode}" takes flags only, see "tokenplane ${mode} --help"`,
    );
  }
  // The value stays out of the message: it may be a secret behind a mistyped flag.
  const name = arg.replace(/=.*$/s, "");
  const flag = name.replace(/^-+/, "");
  const elsewhere = SETTINGS.filter((setting) => setting.flag === flag).flatMap((setting) => setting.modes);
  if (elsewhere.length > 0 && name.startsWith("--") && !flags.includes(flag)) {
    return refuse(`use --${flag} with "${mode}": it is a flag of ${[...new Set(elsewhere)].join(" and ")}`);
  }
  return refuse(
    `use ${shownValue(null, name)}: "${mode}" has no such flag${
      didYouMean(flag, flags, "--")
    }, see "tokenplane ${mode} --help"`,
  );
}

/** A variable with our prefix that means nothing is a typing error that would go unnoticed. */
function checkEnvironmentNames(env: Environment): void {
  const known = new Set(SETTINGS.map(envOf));
  for (const name of Object.keys(env).sort()) {
    if (!name.startsWith(ENV_PREFIX) || known.has(name)) continue;
    throw refuse(`use ${shownValue(null, name)}: there is no such setting${didYouMean(name, known, "")}`);
  }
}

function fromEnvironment(setting: Setting, env: Environment): GivenTexts | null {
  const twin = envOf(setting);
  const own = env[twin];
  const alias = setting.alias === undefined ? undefined : env[setting.alias];
  if (alias === undefined) return own === undefined ? null : { name: twin, texts: split(setting, own) };
  const translated = setting.aliasValues?.[alias] ?? alias;
  if (own !== undefined && own !== translated) {
    throw refuse(
      `use ${twin} ${shownValue(setting, own)} with ${setting.alias} ${
        shownValue(setting, alias)
      }: they must agree`,
    );
  }
  return { name: setting.alias!, texts: [translated] };
}

function split(setting: Setting, text: string): string[] {
  return isRepeatable(setting) ? text.split(",").map((part) => part.trim()) : [text];
}

function readGiven(setting: Setting, given: GivenTexts): unknown {
  const values = given.texts.map((text) => {
    if (typeof text !== "string" || text === "") {
      throw refuse(`use ${given.name} without a value: allowed are ${allowedValues(setting)}`);
    }
    const parsed = parseValue(setting, text);
    if (!parsed.ok) {
      throw refuse(`use ${given.name} ${shownValue(setting, text)}: allowed are ${allowedValues(setting)}`);
    }
    return parsed.value;
  });
  return isRepeatable(setting) ? values : values[0];
}

/** The value of a setting that nobody gave. */
export function defaultOf(setting: Setting): unknown {
  if (setting.default === null) return isRepeatable(setting) ? [] : null;
  if (typeof setting.default === "number") return setting.default;
  const parsed = parseValue(setting, setting.default);
  if (!parsed.ok) throw new TokenplaneError("internal", `Cannot read the default of --${setting.flag}`);
  return isRepeatable(setting) ? [parsed.value] : parsed.value;
}

function asksForHelp(args: readonly string[]): boolean {
  return args.some((arg) => arg === "--help" || arg === "-h");
}

function didYouMean(name: string, known: Iterable<string>, prefix: string): string {
  const near = suggest(name, known);
  return near === null ? "" : ` (did you mean "${prefix}${near}"?)`;
}

function refuse(rest: string): TokenplaneError {
  return new TokenplaneError("invalid_config", `Cannot ${rest}`, { scope: "process" });
}
