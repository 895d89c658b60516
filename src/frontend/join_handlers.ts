/** How workers come and go: `_tp_join`, `_tp_leave`, and what lost connections say. */
import type { Clock } from "../clock.ts";
import { TokenplaneError, toTokenplaneError } from "../errors.ts";
import { peerInfoToJson } from "../messenger/peer_info.ts";
import type { MessengerPort } from "../messenger/types.ts";
import type { Logger } from "../observe/log.ts";
import { JOIN_HANDLER, LEAVE_HANDLER, readJoinMessage } from "../routing/join_message.ts";
import type { Worker } from "../routing/worker.ts";
import type { WorkerTable } from "../routing/worker_table.ts";

/** Any node answers this one; it shows that a peer is alive. */
const PROBE_HANDLER = "_list_handlers";

/** What {@linkcode registerJoinHandlers} needs. */
export interface JoinContext {
  readonly messenger: MessengerPort;
  readonly table: WorkerTable;
  readonly clock: Clock;
  readonly log: Logger;
  readonly joinIntervalMs: number;
  readonly lostGraceMs: number;
  /** Node addresses (`host:port`) of all shards of this frontend, this one included. */
  readonly shards: () => readonly string[];
  /** A worker has joined, or joined again, over its standing connection: it can be asked. */
  readonly onConnected: (worker: Worker) => void;
}

/** Registers the handlers and listens for lost connections. Once per messenger. */
export function registerJoinHandlers(context: JoinContext): void {
  const { messenger, table } = context;
  /** Inbound connections over which workers speak. */
  const connections = new Map<number, Worker>();

  messenger.handleJson(JOIN_HANDLER, (input, origin) => {
    const { isByAddress, peer, worker: info } = readJoinMessage(input);
    if (origin.peer !== null && origin.peer.instanceId !== peer.instanceId) {
      throw refuse("peer_info is not that of the sender");
    }
    messenger.registerPeer(peer);
    const worker = table.join(info);
    if (worker === null) throw refuse("the frontend has as many workers or models as it takes");
    // A connection made for the join alone ends with it, which says nothing of the worker.
    if (origin.peer !== null && !isByAddress) {
      connections.set(origin.connection, worker);
      context.onConnected(worker);
    }
    return {
      peer_info: peerInfoToJson(messenger.peerInfo),
      shards: context.shards(),
      join_interval_ms: context.joinIntervalMs,
    };
  });

  messenger.handleJson(LEAVE_HANDLER, (_input, origin) => {
    // Only a worker itself can say that it leaves.
    const worker = origin.peer === null ? undefined : table.worker(origin.peer.instanceId);
    if (worker !== undefined) table.markDraining(worker);
    return {};
  });

  messenger.listen({
    onLaneLost(peer, _lane, reason) {
      const worker = table.worker(peer);
      if (worker !== undefined) suspect(context, worker, reason);
    },
    onConnectionClosed(connection, reason) {
      const worker = connections.get(connection);
      if (worker === undefined) return;
      connections.delete(connection);
      suspect(context, worker, reason);
    },
  });
}

/** Takes a worker out of use until it has shown that it is alive. */
export function suspect(
  context: Pick<JoinContext, "messenger" | "table" | "lostGraceMs">,
  worker: Worker,
  reason: string,
): void {
  const { messenger, table, lostGraceMs } = context;
  if (worker.state !== "ready") {
    // A draining worker that closes its connections has nothing more to say.
    if (worker.state === "draining") table.markLost(worker, reason);
    return;
  }
  table.markLost(worker, reason);
  // One lane of several may be lost, and a worker may be slow to notice: asking is quicker than waiting for its join.
  messenger.requestJson(worker.instanceId, PROBE_HANDLER, {}, Math.max(1, lostGraceMs)).then(
    () => table.markFound(worker),
    (error: unknown) => {
      const { code } = toTokenplaneError(error);
      if (code === "remote" || code === "handler_not_found") table.markFound(worker);
      else if (code === "unavailable") table.markDraining(worker);
    },
  );
}

function refuse(why: string): TokenplaneError {
  const message = `Cannot take a worker in: ${why}`;
  return new TokenplaneError("unavailable", message, { wire: message });
}
