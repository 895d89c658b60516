/**
 * Keeps the README's settings table equal to the schema.
 *
 * usage: deno run --allow-read --allow-write tools/settings_table.ts write|check [README]
 */
import { settingsTables } from "../src/config/table.ts";

const BEGIN = "<!-- settings: begin, made by `deno task settings:write` -->";
const END = "<!-- settings: end -->";

/** The text with a fresh table between its markers. Throws when a marker is missing. */
export function withFreshTable(text: string): string {
  const begin = text.indexOf(BEGIN);
  const end = text.indexOf(END);
  if (begin < 0 || end < begin) throw new Error(`Cannot find the markers "${BEGIN}" and "${END}"`);
  // The formatter would pad every cell to the longest of its column.
  const tables = `<!-- deno-fmt-ignore-start -->\n\n${settingsTables()}\n\n<!-- deno-fmt-ignore-end -->`;
  return `${text.slice(0, begin + BEGIN.length)}\n\n${tables}\n\n${text.slice(end)}`;
}

if (import.meta.main) {
  const [action, path = new URL("../README.md", import.meta.url)] = Deno.args;
  const text = await Deno.readTextFile(path);
  const fresh = withFreshTable(text);
  if (action === "write") await Deno.writeTextFile(path, fresh);
  else if (fresh !== text) {
    await Deno.stderr.write(
      new TextEncoder().encode("The README's settings table is stale: run `deno task settings:write`\n"),
    );
    Deno.exit(1);
  }
}
