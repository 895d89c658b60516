/** Tests that need something which not every machine has. */

/**
 * Registers a test that runs where `available` is true and elsewhere shows as skipped, naming the missing component.
 *
 * ```ts ignore
 * import { optionalTest } from "./optional.ts";
 * optionalTest("a C compiler (gcc)", true, "sse_floor builds", () => {});
 * ```
 */
export function optionalTest(
  component: string,
  available: boolean,
  name: string,
  fn: (context: Deno.TestContext) => void | Promise<void>,
): void {
  if (available) Deno.test(name, fn);
  else Deno.test.ignore(`${name} [skipped: ${component} is not here]`, fn);
}

/** Whether a program can be run by its name. */
export function hasProgram(name: string): boolean {
  for (const folder of (Deno.env.get("PATH") ?? "").split(":")) {
    if (folder === "") continue;
    try {
      const { isFile, mode } = Deno.statSync(`${folder}/${name}`);
      if (isFile && ((mode ?? 0) & 0o111) !== 0) return true;
    } catch {
      // Not in this folder.
    }
  }
  return false;
}
