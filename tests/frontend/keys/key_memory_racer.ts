/** One of several isolates that go for the same place of a `KeyMemory`. */
import { KeyMemory } from "../../../src/frontend/keys/key_memory.ts";

interface Race {
  readonly shared: SharedArrayBuffer;
  readonly column: number;
  readonly rpm: number;
  readonly limit: number;
  readonly tries: number;
}

const COLUMNS = 4;
const NOW_NS = 1_800_000_000_000_000_000n;
const scope = globalThis as unknown as {
  onmessage: ((event: MessageEvent<Race>) => void) | null;
  postMessage(value: unknown): void;
};

scope.onmessage = ({ data: { shared, column, rpm, limit, tries } }) => {
  const memory = new KeyMemory(COLUMNS, shared);
  // Those that were let in, counted beside the memory itself: the place's neighbour, where nobody races for a limit.
  const inside = new KeyMemory(COLUMNS, shared);
  let [turns, most] = [0, 0];
  for (let i = 0; i < tries; i++) {
    if (memory.takeTurn(0, rpm, NOW_NS).isAllowed) turns++;
    if (!memory.enter(0, column, limit)) continue;
    inside.enter(1, column, 0);
    most = Math.max(most, inside.running(1));
    inside.leave(1, column);
    memory.leave(0, column);
  }
  scope.postMessage({ turns, most });
};

scope.postMessage("loaded");
