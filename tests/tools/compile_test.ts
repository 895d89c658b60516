import { assert, assertEquals } from "@std/assert";
import { compileArguments } from "../../tools/compile.ts";
import { V8_FLAGS } from "../../tools/v8_flags.ts";
import config from "../../deno.json" with { type: "json" };

/** Runs a copy of the tool, with a compiler that leaves half a file and fails with these words. */
async function compile(words: string, args: string[] = [], env: Record<string, string> = {}) {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${folder}/tools`);
    for (const file of ["compile.ts", "v8_flags.ts"]) {
      await Deno.copyFile(new URL(`../../tools/${file}`, import.meta.url), `${folder}/tools/${file}`);
    }
    const compiler = `${folder}/compiler`;
    await Deno.writeTextFile(
      compiler,
      `#!/bin/sh\nmkdir -p dist && : > dist/half\necho '${words}' >&2\nexit 1\n`,
      { mode: 0o755 },
    );
    const { DENORT_BIN: _, ...inherited } = Deno.env.toObject();
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "--allow-all", "--no-config", `${folder}/tools/compile.ts`, ...args],
      clearEnv: true,
      env: { ...inherited, DENO_FOR_COMPILE: compiler, ...env },
    }).output();
    const left = [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name === "dist");
    return { code, left, lines: new TextDecoder().decode(stderr).trimEnd().split("\n") };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const NO_DOWNLOAD = "error sending request for url (https://dl.deno.land/denort.zip)";

Deno.test("compile says what to set when the base runtime cannot be downloaded, and leaves no dist", async () => {
  const { code, left, lines } = await compile(NO_DOWNLOAD);
  assertEquals([code, left, lines.length], [1, [], 2]);
  for (const part of ["DENORT_BIN", "DENO_FOR_COMPILE"]) assert(lines[1]!.includes(part), lines[1]);
});

Deno.test("compile says nothing of downloads when something else is wrong", async () => {
  for (const run of [compile("error: bad module"), compile(NO_DOWNLOAD, [], { DENORT_BIN: "/none" })]) {
    const { code, left, lines } = await run;
    assertEquals([code, left, lines.length], [1, [], 1]);
  }
});

Deno.test("compile --optional leaves out what it cannot make in one line, code 0", async () => {
  const { code, left, lines } = await compile(NO_DOWNLOAD, ["--optional"]);
  assertEquals([code, left, lines.length], [0, [], 1]);
});

Deno.test("The compiled file and the tasks that run from source set the collector alike", () => {
  assert(compileArguments().includes(V8_FLAGS));
  for (const task of ["start", "tokenplane"] as const) {
    assert(config.tasks[task].split(" ").includes(V8_FLAGS), config.tasks[task]);
  }
});
