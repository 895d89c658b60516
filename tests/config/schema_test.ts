import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { modeHelp, programHelp } from "../../src/config/help.ts";
import { defaultOf, resolveSettings, settingsOf } from "../../src/config/resolve.ts";
import { SETTINGS } from "../../src/config/schema/mod.ts";
import { envOf, isRepeatable, keyOf, MODES } from "../../src/config/setting.ts";
import { settingsTables } from "../../src/config/table.ts";
import { parseValue } from "../../src/config/values.ts";
import { DEFAULT_FRONTEND_OPTIONS } from "../../src/frontend/options.ts";
import { DEFAULT_MUX_OPTIONS } from "../../src/mux/options.ts";
import { withFreshTable } from "../../tools/settings_table.ts";

Deno.test("SETTINGS has one entry per flag and mode, with distinct fields and variables", () => {
  for (const mode of MODES) {
    const settings = settingsOf(mode);
    assertEquals(new Set(settings.map((one) => one.flag)).size, settings.length, mode);
    assertEquals(new Set(settings.map(keyOf)).size, settings.length, mode);
  }
  const fields = new Map<string, string>();
  for (const setting of SETTINGS) {
    assertEquals(fields.get(envOf(setting)) ?? keyOf(setting), keyOf(setting));
    fields.set(envOf(setting), keyOf(setting));
  }
});

Deno.test("SETTINGS have defaults that their own validation takes, and ends of ranges too", () => {
  for (const setting of SETTINGS) {
    assert(/^[a-z]+(?:-[a-z]+)*$/.test(setting.flag), setting.flag);
    assert(setting.help.endsWith(".") && setting.cost.endsWith("."), setting.flag);
    const fallback = defaultOf(setting);
    if (setting.kind !== "int" && setting.kind !== "number") continue;
    assert(typeof fallback === "number" && fallback >= setting.min && fallback <= setting.max, setting.flag);
    for (const [value, ok] of [[setting.min, true], [setting.max, true], [setting.max + 1, false]] as const) {
      assertEquals(parseValue(setting, String(value)).ok, ok, `${setting.flag} ${value}`);
    }
  }
});

Deno.test("SETTINGS are all read from their variables", () => {
  for (const setting of SETTINGS) {
    for (const mode of setting.modes) {
      const env = { TOKENPLANE_FRONTEND: "a:1", [envOf(setting)]: "\u0001" };
      assertThrows(() => resolveSettings(mode, [], env), Error, envOf(setting));
      const flag = mode === "worker" && setting.flag !== "frontend" ? ["--frontend", "a:1"] : [];
      assertThrows(
        () => resolveSettings(mode, [...flag, `--${setting.flag}`], {}),
        Error,
        `--${setting.flag}`,
      );
    }
  }
});

Deno.test("SETTINGS reach every option of the frontend and the mux", () => {
  const frontend: Record<string, unknown> = { ...resolveSettings("frontend", [], {}) };
  for (const [name, value] of Object.entries(DEFAULT_FRONTEND_OPTIONS)) {
    if (name === "passHeaders") continue; // which headers mean something to an engine is not the operator's to tune
    assertEquals(String(frontend[name]), String(value), name);
  }
  for (const [name, value] of Object.entries(DEFAULT_MUX_OPTIONS)) {
    if (name === "flush") assert("batchMs" in frontend);
    else if (name === "asyncOpenAck") assertEquals(frontend[name], "off");
    else assertEquals(frontend[name], value, name);
  }
});

Deno.test("modeHelp names every flag of its mode with variable, default and range, and no other", () => {
  for (const mode of MODES) {
    const help = modeHelp(mode);
    const named = [...help.matchAll(/^ {2}--([a-z-]+) /gm)].map((match) => match[1]);
    assertEquals(named, settingsOf(mode).map((setting) => setting.flag));
    for (const setting of settingsOf(mode)) assertStringIncludes(help, envOf(setting));
    assertStringIncludes(programHelp(), `tokenplane ${mode}`);
    for (const line of help.split("\n")) assert(line.length <= 110, line);
  }
});

Deno.test("settingsTables has a row for every setting", () => {
  const table = settingsTables();
  const rows = [...table.matchAll(/^\| `--([a-z-]+)`/gm)].map((match) => match[1]);
  assertEquals(rows.toSorted(), SETTINGS.map((setting) => setting.flag).toSorted());
  for (const setting of SETTINGS) if (isRepeatable(setting)) assertStringIncludes(table, "repeatable");
});

Deno.test("withFreshTable notices a stale README and keeps the rest of it", async () => {
  const readme = await Deno.readTextFile(new URL("../../README.md", import.meta.url));
  assertEquals(withFreshTable(readme), readme, "run `deno task settings:write`");
  const stale = readme.replace("`--lanes`", "`--lames`");
  assert(stale !== readme);
  assertEquals(withFreshTable(stale), readme);
  assertThrows(() => withFreshTable("nothing here"), Error, "markers");
});
