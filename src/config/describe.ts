/** The words that help and README share about a setting. */
import { envOf, isRepeatable, type Setting } from "./setting.ts";
import { allowedValues } from "./values.ts";

/** What stands for the value behind a flag. */
export function placeholder(setting: Setting): string {
  switch (setting.kind) {
    case "int":
    case "number":
      return "N";
    case "choice":
      return setting.choices.join("|");
    case "address":
      return "HOST:PORT";
    case "url":
      return "URL";
    case "text":
      return "TEXT";
    case "secret":
      return "KEY";
  }
}

/** The default in words. */
export function shownDefault(setting: Setting): string {
  if ("defaultInWords" in setting && setting.defaultInWords !== undefined) return setting.defaultInWords;
  if (setting.default !== null) return String(setting.default);
  return isRequired(setting) ? "required" : "none";
}

/** Allowed values in words, repetition included. */
export function shownRange(setting: Setting): string {
  return allowedValues(setting) + (isRepeatable(setting) ? "; repeatable, with commas in the variable" : "");
}

/** Environment names that are read, the twin first. */
export function shownEnvironment(setting: Setting): readonly string[] {
  return setting.alias === undefined ? [envOf(setting)] : [envOf(setting), setting.alias];
}

function isRequired(setting: Setting): boolean {
  return setting.flag === "frontend";
}
