/**
 * Random schedules over a net of muxes in virtual time, as many as asked for.
 *
 * usage: deno task sim [--seeds 10000] [--from 1] [--steps N]   many; stops at the first that fails, prints its seed
 *        deno task sim --seed N [--steps N]                     one, to replay it
 */
import { parseArgs } from "@std/cli/parse-args";
import { simulate } from "./simulate.ts";

function main(args: readonly string[]): number {
  const flags: Record<string, unknown> = parseArgs([...args], { string: ["seed", "seeds", "from", "steps"] });
  const single = flags["seed"] !== undefined;
  const from = Number(flags["seed"] ?? flags["from"] ?? 1);
  const count = single ? 1 : Number(flags["seeds"] ?? 10_000);
  const options = flags["steps"] === undefined ? {} : { steps: Number(flags["steps"]) };
  const numbers = [from, count, ...Object.values(options)];
  if (!numbers.every(Number.isSafeInteger) || numbers.slice(1).some((one) => one < 1)) {
    say("Cannot run: --seed, --seeds, --from and --steps take whole numbers");
    return 2;
  }
  const steps = flags["steps"] === undefined ? "" : ` --steps ${flags["steps"]}`;
  let [streams, items] = [0, 0];
  for (let seed = from; seed < from + count; seed++) {
    const result = simulate(seed, options);
    streams += result.streams;
    items += result.items;
    if (result.failures.length > 0) {
      say(`Seed ${seed} fails (${result.setup}); replay: deno task sim --seed ${seed}${steps}`);
      for (const failure of result.failures) say(`  ${failure}`);
      return 1;
    }
    if (single) say(`Seed ${seed} holds (${result.setup})`);
    else if ((seed - from + 1) % 1_000 === 0) say(`${seed - from + 1} of ${count} schedules hold`);
  }
  say(`${count} schedules hold: ${streams} streams, ${items} items`);
  return 0;
}

function say(text: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
}

if (import.meta.main) Deno.exit(main(Deno.args));
