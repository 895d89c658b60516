/**
 * What a setting is. One list of these (`schema/`) makes flags, environment twins, validation, help and the README's
 * table; the types of the resolved settings are derived from it, so nothing is named twice.
 */
import type { HostPort } from "./host_port.ts";

/** The modes that take settings. */
export const MODES = Object.freeze(["start", "frontend", "worker"] as const);
/** One of {@linkcode MODES}. */
export type Mode = (typeof MODES)[number];

interface SettingBase {
  /** Without dashes; the environment twin is `TOKENPLANE_` and this in upper case. */
  readonly flag: string;
  /** Name of the resolved field, where it is not the flag in camel case. */
  readonly key?: string;
  readonly modes: readonly Mode[];
  /** Heading it stands under. */
  readonly group: string;
  /** What it is, in one sentence. */
  readonly help: string;
  /** What changing it costs; for a limit also what happens beyond it. */
  readonly cost: string;
  /** Another environment name that is read (Dynamo's). The twin wins over an absent alias; both must agree. */
  readonly alias?: string;
  /** Values of the alias that mean one of ours. */
  readonly aliasValues?: Readonly<Record<string, string>>;
}

/** A whole number in a range, ends included. */
export interface IntSetting extends SettingBase {
  readonly kind: "int";
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly default: number;
  /** The default in words, where it depends on the machine. */
  readonly defaultInWords?: string;
}

/** A number in a range, ends included. */
export interface NumberSetting extends SettingBase {
  readonly kind: "number";
  readonly unit: string;
  readonly min: number;
  readonly max: number;
  readonly default: number;
}

/** One of a few words. */
export interface ChoiceSetting extends SettingBase {
  readonly kind: "choice";
  readonly choices: readonly string[];
  readonly default: string;
}

/** `host:port`, `[ipv6]:port` or `:port`. */
export interface AddressSetting extends SettingBase {
  readonly kind: "address";
  /** Whether port 0 (any free one) makes sense: only where we listen. */
  readonly portZero: boolean;
  readonly repeat?: true;
  /** In the form that the flag takes; null: must be given. A repeatable one starts from an empty list. */
  readonly default: string | null;
}

/** An `http:` or `https:` URL; a trailing slash is cut off. */
export interface UrlSetting extends SettingBase {
  readonly kind: "url";
  readonly default: null;
}

/** A name or the like: 1 to `maxLength` characters, no control characters. */
export interface TextSetting extends SettingBase {
  readonly kind: "text";
  readonly maxLength: number;
  /** What the text must look like, and how to say so. */
  readonly pattern?: { readonly regex: RegExp; readonly says: string };
  readonly repeat?: true;
  readonly default: string | null;
}

/** Never printed, logged or shown in an error. */
export interface SecretSetting extends SettingBase {
  readonly kind: "secret";
  readonly repeat?: true;
  readonly default: null;
}

/** Any setting. */
export type Setting =
  | IntSetting
  | NumberSetting
  | ChoiceSetting
  | AddressSetting
  | UrlSetting
  | TextSetting
  | SecretSetting;

type CamelCase<S extends string> = S extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<CamelCase<Tail>>}`
  : S;
type KeyOf<S> = S extends { readonly key: infer K extends string } ? K
  : S extends { readonly flag: infer F extends string } ? CamelCase<F>
  : never;
type SingleOf<S> = S extends { readonly kind: "int" | "number" } ? number
  : S extends { readonly kind: "choice"; readonly choices: readonly (infer C)[] } ? C
  : S extends { readonly kind: "address" } ? HostPort
  : string;
type ValueOf<S> = S extends { readonly repeat: true } ? readonly SingleOf<S>[]
  : S extends { readonly default: null } ? SingleOf<S> | null
  : SingleOf<S>;

/** The resolved settings of mode `M` for the settings `S`. */
export type SettingsOf<S extends Setting, M extends Mode> = {
  readonly [One in S as M extends One["modes"][number] ? KeyOf<One> : never]: ValueOf<One>;
};

/** The resolved field of a setting. */
export function keyOf(setting: Setting): string {
  return setting.key ?? setting.flag.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** The environment twin of a setting. */
export function envOf(setting: Setting): string {
  return `TOKENPLANE_${setting.flag.toUpperCase().replaceAll("-", "_")}`;
}

/** Whether a setting may be given more than once. */
export function isRepeatable(setting: Setting): boolean {
  return "repeat" in setting && setting.repeat === true;
}
