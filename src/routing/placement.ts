/** A request that counts for a worker, from the choice until it is over. */
import { Load, type LoadBoard } from "./load_board.ts";
import type { PlacedBlocks } from "./policies/policy.ts";
import type { VirtualWorker, Worker } from "./worker.ts";

/** See the head of this file. Counts from its construction on. */
export class Placement {
  /** Where the request goes. */
  readonly target: VirtualWorker;
  readonly #board: LoadBoard;
  /** The worker's row at the time: it may have left, and its row be another's. */
  readonly #row: number;
  readonly #decodeBlocks: number;
  #prefillBlocks: number;
  #isOver = false;

  constructor(target: VirtualWorker, board: LoadBoard, blocks: PlacedBlocks | null) {
    this.target = target;
    this.#board = board;
    this.#row = target.row;
    this.#prefillBlocks = blocks?.prefill ?? 0;
    this.#decodeBlocks = blocks?.decode ?? 0;
    target.worker.inFlight++;
    this.#count(Load.requests, 1);
    this.#count(Load.prefillBlocks, this.#prefillBlocks);
    this.#count(Load.decodeBlocks, this.#decodeBlocks);
  }

  get worker(): Worker {
    return this.target.worker;
  }

  /** The first record has come: nothing of the prompt is left to compute. */
  prefilled(): void {
    this.#count(Load.prefillBlocks, -this.#prefillBlocks);
    this.#prefillBlocks = 0;
  }

  /** The request no longer counts. Idempotent. */
  release(): void {
    if (this.#isOver) return;
    this.prefilled();
    this.#isOver = true;
    this.worker.inFlight--;
    this.#count(Load.requests, -1);
    this.#count(Load.decodeBlocks, -this.#decodeBlocks);
  }

  #count(load: Load, delta: number): void {
    // A worker that has gone took its row's counts along.
    if (delta !== 0 && this.target.row === this.#row) this.#board.add(this.#row, load, delta);
  }
}
