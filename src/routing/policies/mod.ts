/** The policies by the names that `--router-mode` knows. */
import type { CacheView } from "../kv/cache_view.ts";
import type { LoadBoard } from "../load_board.ts";
import { Direct } from "./direct.ts";
import { KvAware, type KvWeights } from "./kv_aware.ts";
import { LeastLoaded } from "./least_loaded.ts";
import type { Policy, Random } from "./policy.ts";
import { PowerOfTwo } from "./power_of_two.ts";
import { RandomChoice } from "./random_choice.ts";
import { RoundRobin } from "./round_robin.ts";

/** See the settings table. */
export const ROUTER_MODES = [
  "round-robin",
  "random",
  "least-loaded",
  "power-of-two",
  "kv",
  "direct",
] as const;
/** One of {@linkcode ROUTER_MODES}. */
export type RouterMode = (typeof ROUTER_MODES)[number];

/** What policies are made of; each takes what it needs. */
export interface PolicyParts {
  readonly board: LoadBoard;
  readonly caches: CacheView;
  readonly weights: KvWeights;
  /** Default `Math.random`. */
  readonly random?: Random;
}

/** A policy of its own for each router. */
export function createPolicy(mode: RouterMode, parts: PolicyParts): Policy {
  const { board, caches, weights, random = Math.random } = parts;
  switch (mode) {
    case "round-robin":
      return new RoundRobin();
    case "random":
      return new RandomChoice(random);
    case "least-loaded":
      return new LeastLoaded(board);
    case "power-of-two":
      return new PowerOfTwo(board, random);
    case "kv":
      return new KvAware(board, caches, weights, random);
    case "direct":
      return new Direct();
  }
}
