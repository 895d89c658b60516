/** The arms by name. */

import type { Arm } from "./arm.ts";
import { floorArm } from "./floor.ts";
import { haproxyArm } from "./haproxy.ts";
import { nginxArm, nginxTlsArm } from "./nginx.ts";
import { tokenplaneArm } from "./tokenplane.ts";

/** The source of the other arms keeps its grid exactly and writes each step's tokens at once, so the worker does too. */
const AS_SOURCE = ["--flush", "step", "--mock-pacing", "exact"];

/** Every arm without TLS; a new one is one file and one line here. */
export const ARMS: readonly Arm[] = [
  floorArm,
  nginxArm,
  haproxyArm,
  tokenplaneArm("tokenplane", ["--lanes", "1"], [...AS_SOURCE, "--lanes", "1"]),
  tokenplaneArm("tokenplane-lanes4", ["--lanes", "4"], [...AS_SOURCE, "--lanes", "4"]),
];

/** Those whose clients speak TLS; what they lack beside the others is the floor. */
export const TLS_ARMS: readonly Arm[] = [
  nginxTlsArm,
  tokenplaneArm("tokenplane-tls", ["--lanes", "1"], [...AS_SOURCE, "--lanes", "1"], true),
];

/**
 * Finds arms by a list as "floor,nginx"; "all" is every one without TLS, "tls" those with it. Throws a RangeError for a
 * name that is not known.
 */
export function selectArms(list: string): Arm[] {
  const known = [...ARMS, ...TLS_ARMS];
  return list.split(",").flatMap((name) => {
    if (name === "all") return ARMS;
    if (name === "tls") return TLS_ARMS;
    const arm = known.find((candidate) => candidate.name === name);
    if (arm !== undefined) return [arm];
    throw new RangeError(
      `Unknown arm "${name}": allowed are all, tls, ${known.map(({ name }) => name).join(", ")}`,
    );
  });
}
