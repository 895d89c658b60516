/** A worker as a frontend knows it. */
import type { InstanceId } from "../../transports/contract.ts";

/** A model as `/v1/models` shows it. */
export interface ModelCard {
  readonly id: string;
  /** Seconds since 1970. */
  readonly created: number;
  readonly ownedBy: string;
}

/** What a worker says of itself when it joins. */
export interface WorkerInfo {
  readonly instanceId: InstanceId;
  readonly models: readonly ModelCard[];
  readonly engine: string;
  /** Requests it wants at one time; 0: no limit. */
  readonly capacity: number;
  /** Logical workers in it, each with a cache of its own; at least 1. Does not change while it is joined. */
  readonly virtualWorkers: number;
}

/** See the table of `worker_table.ts`. */
export type WorkerState = "ready" | "lost" | "draining" | "gone";

/** What requests are placed on: a worker, or one of the logical workers that share its node. */
export class VirtualWorker {
  readonly worker: Worker;
  /** Among those of its worker, from 0. */
  readonly index: number;
  /** Its row of the load board; -1 when it has none. Written by the table alone. */
  row = -1;

  constructor(worker: Worker, index: number) {
    this.worker = worker;
    this.index = index;
  }

  /** As clients see it: the worker's instance id, with `/index` when it has several. */
  get name(): string {
    const { instanceId, virtual } = this.worker;
    return virtual.length === 1 ? instanceId : `${instanceId}/${this.index}`;
  }
}

/** One worker. One object from its join until it is gone. */
export class Worker {
  readonly instanceId: InstanceId;
  readonly virtual: readonly VirtualWorker[];
  info: WorkerInfo;
  state: WorkerState = "ready";
  /** Requests of this shard that it is working on. Written by `Placement` alone. */
  inFlight = 0;
  /** By the clock, in ms. */
  lastHeardMs: number;
  lostAtMs = 0;

  constructor(info: WorkerInfo, now: number) {
    this.instanceId = info.instanceId;
    this.info = info;
    this.lastHeardMs = now;
    this.virtual = Array.from({ length: info.virtualWorkers }, (_, index) => new VirtualWorker(this, index));
  }
}
