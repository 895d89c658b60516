import { Load, type LoadBoard } from "../load_board.ts";
import type { VirtualWorker } from "../worker.ts";
import type { Policy } from "./policy.ts";

/** The worker with the fewest requests of all shards; equals take turns. */
export class LeastLoaded implements Policy {
  readonly #board: LoadBoard;
  #turn = 0;

  constructor(board: LoadBoard) {
    this.#board = board;
  }

  choose(candidates: readonly VirtualWorker[]): VirtualWorker {
    const count = candidates.length;
    const first = this.#turn++ % count;
    let best = candidates[first]!;
    let least = this.#board.total(best.row, Load.requests);
    for (let i = 1; i < count && least > 0; i++) {
      const worker = candidates[(first + i) % count]!;
      const requests = this.#board.total(worker.row, Load.requests);
      if (requests >= least) continue;
      best = worker;
      least = requests;
    }
    return best;
  }
}
