import { Load, type LoadBoard } from "../load_board.ts";
import type { VirtualWorker } from "../worker.ts";
import type { Policy, Random } from "./policy.ts";

/**
 * Of two workers taken at random the one with fewer requests: nearly as even as looking at all, and frontends that do not
 * know of each other do not all run to the same worker.
 */
export class PowerOfTwo implements Policy {
  readonly #board: LoadBoard;
  readonly #random: Random;

  constructor(board: LoadBoard, random: Random) {
    this.#board = board;
    this.#random = random;
  }

  choose(candidates: readonly VirtualWorker[]): VirtualWorker {
    const count = candidates.length;
    const first = Math.floor(this.#random() * count);
    if (count === 1) return candidates[0]!;
    // The second is one of the others, each as likely.
    const second = (first + 1 + Math.floor(this.#random() * (count - 1))) % count;
    const [a, b] = [candidates[first]!, candidates[second]!];
    return this.#board.total(b.row, Load.requests) < this.#board.total(a.row, Load.requests) ? b : a;
  }
}
