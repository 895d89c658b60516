/** The `--help` texts. */
import { placeholder, shownDefault, shownEnvironment, shownRange } from "./describe.ts";
import { settingsOf } from "./resolve.ts";
import { type Mode, MODES, type Setting } from "./setting.ts";

/** What each mode is for, in one line. */
export const MODE_SUMMARIES: Readonly<Record<Mode, string>> = Object.freeze({
  start: "One frontend and a few mock workers over real TCP lanes, in one process: to try it out.",
  frontend: "Accepts OpenAI-style HTTP, sends requests to workers, relays their streams as SSE.",
  worker: "Joins frontends and produces tokens: made up, or from an OpenAI-compatible server behind it.",
});

const WIDTH = 100;

/** The text of `tokenplane --help`. */
export function programHelp(): string {
  const modes = MODES.map((mode) => `  tokenplane ${mode.padEnd(10)} ${MODE_SUMMARIES[mode]}`);
  return [
    "tokenplane carries generated tokens from LLM workers to HTTP clients.",
    "",
    "Usage",
    ...modes,
    "  tokenplane MODE --help       The flags of a mode, their variables, ranges and costs.",
    "  tokenplane --version         The version.",
    "",
    "Every flag has an environment twin: --batch-ms is TOKENPLANE_BATCH_MS. The flag wins.",
    "A wrong setting is told in one line; the exit code is then 2 and nothing was started.",
    "The first SIGINT or SIGTERM drains, the second exits at once.",
    "",
  ].join("\n");
}

/** The text of `tokenplane MODE --help`. */
export function modeHelp(mode: Mode): string {
  const lines = [`tokenplane ${mode} [flags]`, "", ...wrap(MODE_SUMMARIES[mode], 0)];
  let group = "";
  for (const setting of settingsOf(mode)) {
    if (setting.group !== group) {
      group = setting.group;
      lines.push("", group);
    }
    lines.push(...settingHelp(setting));
  }
  lines.push("");
  return lines.join("\n");
}

function settingHelp(setting: Setting): string[] {
  const env = shownEnvironment(setting);
  const facts = `default ${shownDefault(setting)}; allowed: ${shownRange(setting)}; env ${env.join(", ")}`;
  return [
    `  --${setting.flag} ${placeholder(setting)}`,
    ...wrap(setting.help, 6),
    ...(setting.cost === "None." ? [] : wrap(setting.cost, 6)),
    ...wrap(`[${facts}]`, 6),
  ];
}

function wrap(text: string, indent: number): string[] {
  const margin = " ".repeat(indent);
  const lines: string[] = [];
  let line = margin;
  for (const word of text.replaceAll("`", "").split(" ")) {
    if (line.length + word.length >= WIDTH && line !== margin) {
      lines.push(line.trimEnd());
      line = margin;
    }
    line += `${word} `;
  }
  lines.push(line.trimEnd());
  return lines;
}
