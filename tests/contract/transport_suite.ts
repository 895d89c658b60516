/** The transport contract, as tests. Every transport passes all of them. */
import { CARRY_SCENARIOS } from "./transport_carry.ts";
import { FAULT_SCENARIOS } from "./transport_faults.ts";
import { Context, type TransportHarness } from "./transport_harness.ts";

/** Registers the suite for one transport. */
export function testTransport(name: string, newHarness: () => TransportHarness): void {
  for (const [title, body] of [...CARRY_SCENARIOS, ...FAULT_SCENARIOS]) {
    Deno.test(`${name} transport ${title}`, async () => {
      const context = new Context(newHarness());
      try {
        await body(context);
      } finally {
        await context.close();
      }
    });
  }
}
