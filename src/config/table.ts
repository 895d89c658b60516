/** The settings table of the README, in Markdown. */
import { shownDefault, shownEnvironment, shownRange } from "./describe.ts";
import { SETTINGS } from "./schema/mod.ts";
import type { Setting } from "./setting.ts";

/** One table per group of settings. */
export function settingsTables(): string {
  const groups = new Map<string, Setting[]>();
  for (const setting of SETTINGS) {
    const rows = groups.get(setting.group);
    if (rows === undefined) groups.set(setting.group, [setting]);
    else rows.push(setting);
  }
  const parts: string[] = [];
  for (const [group, settings] of groups) {
    parts.push(`#### ${group}`, "", "| flag | modes | default | allowed | what it is, what it costs |");
    parts.push("| --- | --- | --- | --- | --- |", ...settings.map(row), "");
  }
  return parts.join("\n").trimEnd();
}

function row(setting: Setting): string {
  const alias = setting.alias === undefined ? "" : ` Also \`${shownEnvironment(setting)[1]}\`.`;
  const cost = setting.cost === "None." ? "" : ` ${setting.cost}`;
  const cells = [
    `\`--${setting.flag}\``,
    setting.modes.join(", "),
    `\`${shownDefault(setting)}\``,
    shownRange(setting),
    `${setting.help}${cost}${alias}`,
  ];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
}
