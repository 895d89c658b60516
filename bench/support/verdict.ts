/** How the benchmark programs end: bars that hold or do not, and an exit code that says so. */

import { stopChildrenOnSignal } from "./managed_process.ts";
import { note, print } from "./print.ts";

/** Prints whether a bar holds, and returns it. */
export function verdict(holds: boolean, text: string): boolean {
  print(`${holds ? "ok  " : "MISS"} ${text}`);
  return holds;
}

/** Runs a benchmark. Exit code 0 when its bars hold, 1 when one does not, 2 when it could not run. */
export async function runBenchmark(main: (args: readonly string[]) => Promise<boolean>): Promise<never> {
  stopChildrenOnSignal();
  try {
    Deno.exit(await main(Deno.args) ? 0 : 1);
  } catch (error) {
    note(error instanceof Error ? error.message : String(error));
    Deno.exit(2);
  }
}
