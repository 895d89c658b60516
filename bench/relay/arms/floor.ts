/** The floor: the source answers the client itself, with one send a token and nothing else. */

import { NO_COMPILER } from "../../support/native.ts";
import type { Arm } from "./arm.ts";
import { startSource } from "./source.ts";

/** The least that serving such streams can cost. */
export const floorArm: Arm = {
  name: "floor",
  unavailable: (context) => Promise.resolve(context.native === null ? NO_COMPILER : null),
  async start(context) {
    const { process, port } = await startSource(context, context.relayCores);
    return { port, relay: [process], producers: [] };
  },
};
