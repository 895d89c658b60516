/**
 * What every plane promises, as tests. A plane passes when `testPlane("Name", newHarness)` does; scenarios know nothing
 * of lanes, slots or sockets.
 */
import { optionalTest } from "../support/optional.ts";
import { BASE } from "./plane_base.ts";
import { FAULTS } from "./plane_faults.ts";
import type { PlaneHarness } from "./plane_harness.ts";
import { MANY } from "./plane_many.ts";
import { PRESSURE } from "./plane_pressure.ts";

/** Registers the tests of one plane. `needs`: what not every machine has, and whether it is here. */
export function testPlane(
  name: string,
  newHarness: () => PlaneHarness,
  needs = { component: "", isHere: true },
): void {
  for (const [does, scenario] of Object.entries({ ...BASE, ...PRESSURE, ...MANY, ...FAULTS })) {
    optionalTest(needs.component, needs.isHere, `${name} ${does}`, async () => {
      const harness = newHarness();
      try {
        await scenario(harness);
      } finally {
        await harness.close();
      }
    });
  }
}
