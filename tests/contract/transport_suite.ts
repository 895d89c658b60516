/** The transport contract, as tests. Every transport passes all of them. */
import { optionalTest } from "../support/optional.ts";
import { CARRY_SCENARIOS } from "./transport_carry.ts";
import { FAULT_SCENARIOS } from "./transport_faults.ts";
import { Context, type TransportHarness } from "./transport_harness.ts";

/** Where a transport differs from one that runs everywhere and can do everything. */
export interface SuiteOptions {
  /** What it needs that not every machine has, and whether it is here. */
  readonly needs?: { readonly component: string; readonly isHere: boolean };
  /** Titles of scenarios that it cannot play, and why. */
  readonly without?: Readonly<Record<string, string>>;
}

/** Registers the suite for one transport. */
export function testTransport(
  name: string,
  newHarness: () => TransportHarness,
  options: SuiteOptions = {},
): void {
  const { component, isHere } = options.needs ?? { component: "", isHere: true };
  const without = new Map(Object.entries(options.without ?? {}));
  for (const [title, body] of [...CARRY_SCENARIOS, ...FAULT_SCENARIOS]) {
    const reason = without.get(title);
    without.delete(title);
    const lacks = reason !== undefined && isHere;
    optionalTest(lacks ? reason : component, isHere && !lacks, `${name} transport ${title}`, async () => {
      const context = new Context(newHarness());
      try {
        await body(context);
      } finally {
        await context.close();
      }
    });
  }
  if (without.size > 0) throw new Error(`No such scenario: "${[...without.keys()].join('", "')}"`);
}
