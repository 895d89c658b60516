/** Settings of how a worker is chosen for a request. Defaults are those of `FrontendOptions`. */
import { DEFAULT_FRONTEND_OPTIONS as defaults } from "../../frontend/options.ts";
import { ROUTER_MODES } from "../../routing/policies/mod.ts";
import type { Setting } from "../setting.ts";

const modes = ["start", "frontend"] as const;
const GROUP = "Routing";

/** Which worker gets a request. */
export const ROUTING_SETTINGS = [
  {
    kind: "choice",
    flag: "router-mode",
    modes,
    group: GROUP,
    choices: ROUTER_MODES,
    default: defaults.routerMode,
    help:
      "Which worker of a model gets a request: the one with the fewest requests of all shards (`least-loaded`), the better of two at random, the one that has most of the prompt in its cache for its load (`kv`), or the one that the client names in `x-tokenplane-worker` (`direct`).",
    cost:
      "`kv` tokenizes and hashes every prompt: about 1 µs per block, and 15 µs for 1,000 blocks to look them up.",
  },
  {
    kind: "int",
    flag: "kv-block-size",
    modes: ["start", "frontend", "worker"],
    group: GROUP,
    unit: "tokens",
    default: defaults.kvBlockSize,
    min: 1,
    max: 65_536,
    help: "Tokens of one block of the KV cache. Frontends and workers must agree, and with their engine.",
    cost: "Smaller blocks find shorter common beginnings and cost more to hash and to report.",
  },
  {
    kind: "number",
    flag: "router-kv-overlap-credit",
    modes,
    group: GROUP,
    unit: "blocks",
    default: defaults.routerKvOverlapCredit,
    min: 0,
    max: 1_000,
    help: "`kv`: what a block in a worker's cache saves, in blocks to prefill; 0 ignores caches.",
    cost: "More sends requests to caches in spite of load.",
  },
  {
    kind: "number",
    flag: "router-prefill-load-scale",
    modes,
    group: GROUP,
    unit: "blocks",
    default: defaults.routerPrefillLoadScale,
    min: 0,
    max: 1_000,
    help: "`kv`: what a block to prefill costs, in blocks held by running requests.",
    cost: "More favours time to first token, less the gaps between tokens.",
  },
  {
    kind: "number",
    flag: "router-temperature",
    modes,
    group: GROUP,
    unit: "",
    default: defaults.routerTemperature,
    min: 0,
    max: 1_000,
    help: "`kv`: 0 takes the least cost; above, costs only weigh the dice, the less the higher it is.",
    cost: "Spreads load among equals of several frontends, and misses caches.",
  },
  {
    kind: "int",
    flag: "router-ttl-secs",
    modes,
    group: GROUP,
    unit: "s",
    default: defaults.routerTtlSecs,
    min: 1,
    max: 86_400,
    help: "`kv`: how long a worker that reports nothing of its cache is taken to keep what it was sent.",
    cost: "Longer than its cache keeps blocks sends requests to caches that are gone.",
  },
  {
    kind: "int",
    flag: "router-max-blocks",
    modes,
    group: GROUP,
    unit: "blocks",
    default: defaults.routerMaxBlocks,
    min: 1_024,
    max: 67_108_864,
    help: "`kv`: most different blocks that each shard remembers.",
    cost: "About 50 bytes each; beyond it new blocks are not remembered.",
  },
] as const satisfies readonly Setting[];
