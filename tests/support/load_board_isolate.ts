/** A shard of `load_board_test.ts`: enters workers in the order it is told and answers with their rows. */
import { LoadBoard } from "../../src/routing/load_board.ts";

interface Scope {
  onmessage: (event: MessageEvent<EnterCommand>) => void;
  postMessage(message: unknown): void;
}

/** What it is told. */
export interface EnterCommand {
  readonly memory: SharedArrayBuffer;
  readonly shards: number;
  readonly shard: number;
  readonly ids: readonly number[];
}

const scope = globalThis as unknown as Scope;
scope.onmessage = ({ data: { memory, shards, shard, ids } }) => {
  const board = new LoadBoard(memory, shards, shard);
  scope.postMessage(ids.map((id) => [id, board.enter(BigInt(id))]));
};
scope.postMessage("loaded");
