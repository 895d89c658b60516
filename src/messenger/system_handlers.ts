/** Handlers that every node has: who are you, what can you do, and the staging protocol. */
import type { InstanceId } from "../../transports/contract.ts";
import { TokenplaneError } from "../errors.ts";
import type { HandlerTable } from "./handlers.ts";
import { parseJson } from "./json.ts";
import { peerInfoFromJson, peerInfoToJson } from "./peer_info.ts";
import { asRecord, type StagingStore } from "./staging.ts";
import type { MessengerPort } from "./types.ts";

const MAX_HANDLER_NAMES = 65_536;

/** Registers them. */
export function registerSystemHandlers(
  messenger: Pick<MessengerPort, "registerPeer">,
  handlers: HandlerTable,
  staging: StagingStore,
): void {
  const list = (): { handlers: string[] } => ({ handlers: handlers.names() });
  handlers.add("_hello", {
    json: (input) => {
      messenger.registerPeer(peerInfoFromJson(asRecord(input)["peer_info"]));
      return list();
    },
  });
  handlers.add("_list_handlers", { json: list });
  handlers.add("_rv_acquire", { json: (input) => staging.acquire(input) });
  handlers.add("_rv_pull", { bytes: (payload) => staging.pull(parseJson(payload)) });
  handlers.add("_rv_release", { json: (input) => staging.release(input) });
  handlers.add("_rv_detach", { json: (input) => staging.detach(input) });
}

/** Introduces this node to a peer; resolves with the names of the peer's handlers. Rejects as `requestJson` does. */
export async function helloTo(
  messenger: Pick<MessengerPort, "peerInfo" | "requestJson">,
  peer: InstanceId,
  timeoutMs: number,
): Promise<ReadonlySet<string>> {
  const hello = { peer_info: peerInfoToJson(messenger.peerInfo) };
  return handlersOf(await messenger.requestJson(peer, "_hello", hello, timeoutMs));
}

function handlersOf(answer: unknown): ReadonlySet<string> {
  const names = asRecord(answer)["handlers"];
  if (!Array.isArray(names) || names.length > MAX_HANDLER_NAMES) {
    throw new TokenplaneError("protocol", "Cannot read answer to _hello: it has no list of handlers");
  }
  return new Set(names.filter((name) => typeof name === "string"));
}
