/** The program: which mode, and what its end means for the exit code. No logic. */
import deno from "./deno.json" with { type: "json" };
import { modeHelp, programHelp } from "./src/config/help.ts";
import { resolveCommand } from "./src/config/resolve.ts";
import { toTokenplaneError } from "./src/errors.ts";
import { runMode } from "./src/modes/run.ts";

/** Runs the program; resolves to its exit code: 0, 1 for a failure, 2 for a setting that cannot be honoured. */
export async function main(args: readonly string[]): Promise<number> {
  try {
    const command = resolveCommand(args, Deno.env.toObject());
    switch (command.kind) {
      case "help":
        await print(Deno.stdout, command.mode === null ? programHelp() : modeHelp(command.mode));
        return 0;
      case "version":
        await print(Deno.stdout, `tokenplane ${deno.version} (Deno ${Deno.version.deno})\n`);
        return 0;
      default:
        await runMode(command);
        return 0;
    }
  } catch (caught) {
    const error = toTokenplaneError(caught);
    await print(Deno.stderr, `tokenplane: ${error.message.replaceAll(/\s*[\r\n]+\s*/g, " ")}\n`);
    return error.code === "invalid_config" ? 2 : 1;
  }
}

async function print(to: { writable: WritableStream<Uint8Array> }, text: string): Promise<void> {
  const blob = new Blob([text]);
  // A closed pipe (`--help | head -1`) is the reader's choice.
  await blob.stream().pipeTo(to.writable, { preventClose: true }).catch(() => {});
}

if (import.meta.main) Deno.exit(await main(Deno.args));
