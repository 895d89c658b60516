/** Settings of what a process shows of itself. */
import type { Setting } from "../setting.ts";

const GROUP = "Observation";

/** What a process shows of itself. */
export const OBSERVE_SETTINGS = [
  {
    kind: "address",
    flag: "metrics-listen",
    modes: ["worker"],
    group: GROUP,
    default: null,
    portZero: true,
    help: "Where a worker serves `/metrics`, `/health` and `/live`; port 0 is any free one.",
    cost: "One HTTP server, without authentication.",
  },
  {
    kind: "choice",
    flag: "log-ttft-split",
    modes: ["start", "frontend"],
    group: GROUP,
    choices: ["off", "on"],
    default: "off",
    help: "Logs for each finished request where its time went: one `TTFTSPLIT` line at level `info`, in ms.",
    cost: "One line per request; off costs nothing.",
  },
] as const satisfies readonly Setting[];
