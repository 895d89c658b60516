/** The arms by name. */

import type { Arm } from "./arm.ts";
import { floorArm } from "./floor.ts";
import { haproxyArm } from "./haproxy.ts";
import { nginxArm } from "./nginx.ts";
import { tokenplaneArm } from "./tokenplane.ts";

/** The source of the other arms keeps its grid exactly and writes each step's tokens at once, so the worker does too. */
const AS_SOURCE = ["--flush", "step", "--mock-pacing", "exact"];

/** Every arm the rig knows; a new one is one file and one line here. */
export const ARMS: readonly Arm[] = [
  floorArm,
  nginxArm,
  haproxyArm,
  tokenplaneArm("tokenplane", ["--lanes", "1"], [...AS_SOURCE, "--lanes", "1"]),
  tokenplaneArm("tokenplane-lanes4", ["--lanes", "4"], [...AS_SOURCE, "--lanes", "4"]),
];

/** Finds arms by a list as "floor,nginx"; "all" is every one. Throws a RangeError for a name that is not known. */
export function selectArms(list: string): Arm[] {
  if (list === "all") return [...ARMS];
  return list.split(",").map((name) => {
    const arm = ARMS.find((candidate) => candidate.name === name);
    if (arm !== undefined) return arm;
    throw new RangeError(
      `Unknown arm "${name}": allowed are all, ${ARMS.map((known) => known.name).join(", ")}`,
    );
  });
}
