/** How the benchmarks run the product. */

import { V8_FLAGS } from "../../tools/v8_flags.ts";
import { MAIN_TS } from "./paths.ts";

/** The command before the mode: a compiled binary, or `main.ts` for an empty path. */
export function tokenplaneCommand(binary: string): string[] {
  return binary === "" ? [Deno.execPath(), "run", "-A", V8_FLAGS, MAIN_TS] : [binary];
}

/** A flag of further flags, separated by spaces, as words. */
export function words(text: string): string[] {
  return text.split(" ").filter((word) => word !== "");
}
