/** `deno task sim [--seeds N] [--from N] [--seed N] [--steps N]`: many random schedules of the mux, or one again. */
import { parseArgs } from "@std/cli/parse-args";
import { simulate } from "../tests/sim/simulate.ts";

const args = parseArgs(Deno.args, { string: ["seeds", "from", "seed", "steps"] });
const steps = Number(args.steps ?? 120);
const from = Number(args.seed ?? args.from ?? 1);
const count = args.seed === undefined ? Number(args.seeds ?? 1_000) : 1;
const started = performance.now();
let failed = 0;
let streams = 0;
let items = 0;

for (let seed = from; seed < from + count; seed++) {
  const result = simulate(seed, { steps });
  streams += result.streams;
  items += result.items;
  if (args.seed !== undefined) print(`seed ${seed}: ${result.setup}, digest ${result.digest}`);
  if (result.failures.length === 0) continue;
  failed++;
  print(`seed ${seed} fails (replay with: deno task sim --seed ${seed} --steps ${steps})`);
  print(`  ${result.setup}`);
  for (const failure of result.failures) print(`  ${failure}`);
  if (failed >= 20) break;
}
const seconds = (performance.now() - started) / 1_000;
print(`${count} seeds, ${streams} streams, ${items} items, ${failed} failing, ${seconds.toFixed(1)} s`);
if (failed > 0) Deno.exit(1);

function print(line: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${line}\n`));
}
