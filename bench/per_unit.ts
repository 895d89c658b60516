/** `deno bench` counts calls; what compares is the cost of one record, slot or deadline. This prints that too. */
import { print } from "./support/print.ts";

/** A benchmark whose one call handles many units. */
export interface UnitBench {
  readonly name: string;
  readonly group: string;
  /** Units handled by one call of `run`. */
  readonly units: number;
  /** What a unit is, e.g. `record`. */
  readonly unit: string;
  /** The reference's figure for the same thing, with its unit, or why there is none. */
  readonly reference: string;
  readonly baseline?: boolean;
  run(): void;
}

/** Registers a benchmark; at the end of the run its ns per unit are printed beside the reference's figure. */
export function benchPerUnit(bench: UnitBench): void {
  let calls = 0;
  let ms = 0;
  Deno.bench({
    name: bench.name,
    group: bench.group,
    baseline: bench.baseline ?? false,
    fn: (b) => {
      b.start();
      const start = performance.now();
      bench.run();
      ms += performance.now() - start;
      b.end();
      calls++;
    },
  });
  addEventListener("unload", () => {
    if (calls === 0) return;
    const ns = ms * 1e6 / calls / bench.units;
    print(`${bench.group}: ${bench.name}: ${ns.toFixed(1)} ns per ${bench.unit} (${bench.reference})`);
  });
}

/** Prints a line at the end of the run. */
export function printAtEnd(line: string): void {
  addEventListener("unload", () => print(line));
}
