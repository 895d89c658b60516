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
