/**
 * Makes `dist/tokenplane`, one file that runs every mode.
 *
 * usage: deno run --allow-all tools/compile.ts [--optional]
 *
 * `deno compile` embeds the program in a base runtime (`denort`), which it downloads from Deno's own site. Where that is
 * out of reach, `DENORT_BIN` names one, and `DENO_FOR_COMPILE` the Deno that matches it. With `--optional` a base that
 * is not to be had is said in one line and is no failure.
 */
import { V8_FLAGS } from "./v8_flags.ts";

/** Modules that are loaded by URL and that the bundler cannot see. */
const INCLUDED = ["src/modes/mock_worker_isolate.ts", "src/modes/shards/shard_isolate.ts"];

const root = new URL("../", import.meta.url);
const dist = new URL("dist/", root);
const output = "dist/tokenplane";
/** The last line when Deno's download fails. */
const WITHOUT_BASE =
  "Cannot compile: Deno cannot download its base runtime (denort) here; set DENORT_BIN to a denort " +
  "file, and DENO_FOR_COMPILE to the deno of the same version";

/** Whether a failed compile failed for want of a base runtime. */
export function lacksBase(stderr: string): boolean {
  return /denort|dl\.deno\.land|error sending request/i.test(stderr);
}

/** The arguments of `deno compile`. */
export function compileArguments(): string[] {
  const included = INCLUDED.flatMap((module) => ["--include", module]);
  return ["compile", "--allow-all", "--no-lock", V8_FLAGS, ...included, "--output", output, "main.ts"];
}

async function main(): Promise<number> {
  const deno = Deno.env.get("DENO_FOR_COMPILE") ?? Deno.execPath();
  // Also what an interrupted compile left there.
  await Deno.remove(dist, { recursive: true }).catch(() => {});
  const { code, stderr } = await new Deno.Command(deno, {
    args: compileArguments(),
    cwd: root,
    // Deno 2.6 walks the module graph recursively on a 2 MiB thread stack and dies of ours.
    env: { RUST_MIN_STACK: String(256 * 1024 * 1024) },
    stdin: "null",
    stdout: "inherit",
    stderr: "piped",
  }).output();
  if (code === 0) {
    say(`Compiled ${output}`);
    return 0;
  }
  const text = new TextDecoder().decode(stderr);
  // What a failed compile leaves is of no use to anyone.
  await Deno.remove(dist, { recursive: true }).catch(() => {});
  const isWithoutBase = Deno.env.get("DENORT_BIN") === undefined && lacksBase(text);
  if (isWithoutBase && Deno.args.includes("--optional")) {
    say("Compile left out: Deno's download of denort is out of reach and DENORT_BIN is not set");
    return 0;
  }
  say(text.trimEnd());
  if (isWithoutBase) say(WITHOUT_BASE);
  return code;
}

function say(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

if (import.meta.main) Deno.exit(await main());
