/**
 * Everything that exists between start and shutdown: library, worker, memory, loop. Built in one go and taken down in
 * the reverse order, each step bounded in time.
 */
import type { FrameSink, InstanceId } from "../contract.ts";
import { type Endpoint, Endpoints } from "./endpoints.ts";
import { InboundTable } from "./inbound.ts";
import { loadUcx, type UcxLibrary } from "./library.ts";
import { NativeMemory } from "./memory.ts";
import type { UcxSettings, UcxStats } from "./options.ts";
import { ProgressLoop, type TurnWork } from "./progress.ts";
import { type DropReason, Receiver } from "./receive.ts";
import { Replies } from "./replies.ts";
import { Sender } from "./send.ts";
import { createWorker, destroyWorker, type UcxWorker } from "./worker.ts";

/** Bounds of the steps of a shutdown, ms. */
const FLUSH_MS = 1_000;
const CLOSE_MS = 1_000;
/** How long nothing must have happened before the worker is destroyed, and how long that is waited for, ms. */
const QUIET_MS = 10;
const MAX_UNQUIET_MS = 200;
/** Pause between looks while shutting down, ms. */
const LOOK_MS = 1;

/** Runtimes that UCX did not let go of: their buffers must stay in place for as long as the process lives. */
const leaked: UcxRuntime[] = [];

/** What the transport brings in. */
export interface RuntimeHooks extends TurnWork {
  onDrop(reason: DropReason): void;
  /** An endpoint of ours is being closed. */
  onGone(endpoint: Endpoint): void;
  /** An endpoint of ours has to go because its peer broke the rules. */
  onMisbehaved(peer: InstanceId): void;
}

/** See the head of this file. */
export class UcxRuntime {
  readonly library: UcxLibrary;
  readonly worker: UcxWorker;
  readonly memory = new NativeMemory();
  readonly sender: Sender;
  readonly endpoints: Endpoints;
  readonly replies: Replies;
  readonly receiver: Receiver;
  readonly inbound: InboundTable;
  readonly loop: ProgressLoop;

  /** Throws `invalid_config` with one line when UCX cannot be used; nothing is left behind then. */
  constructor(settings: UcxSettings, stats: UcxStats, sink: FrameSink, hooks: RuntimeHooks) {
    this.library = loadUcx(settings.library);
    this.worker = createWorker(this.library);
    this.sender = new Sender(this.library, this.memory);
    this.endpoints = new Endpoints(this.library, this.worker, this.sender, hooks.onGone);
    this.replies = new Replies(this.sender);
    this.receiver = new Receiver(this.library, settings.eagerMax, (reason) => hooks.onDrop(reason));
    this.inbound = new InboundTable(
      sink,
      stats,
      this.endpoints,
      settings.maxInbound,
      (endpoint) => hooks.onMisbehaved(endpoint.peer),
      () => this.loop.caughtUpAt,
    );
    this.loop = new ProgressLoop(this.library, this.worker, hooks, settings);
    try {
      this.receiver.register(this.library, this.worker.worker);
    } catch (caught) {
      this.#destroy();
      throw caught;
    }
    this.loop.kick();
  }

  /** Takes turns until `done` or until `ms` have passed. Returns what `done` said last. */
  async until(done: () => boolean, ms: number): Promise<boolean> {
    const deadline = performance.now() + ms;
    for (;;) {
      this.loop.run();
      if (done()) return true;
      if (performance.now() >= deadline) return false;
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  }

  /**
   * Flushes and closes what is open, by force what does not end in time, and destroys the worker. Returns false when UCX
   * did not let go of an endpoint in time: then the worker is left alone, since destroying it under an operation in
   * flight is what crashes.
   */
  async close(): Promise<boolean> {
    this.endpoints.flushAll();
    await this.until(() => this.endpoints.allFlushed() && this.replies.pending === 0, FLUSH_MS);
    this.endpoints.closeAll();
    const isClosed = await this.until(() => this.endpoints.closing === 0, CLOSE_MS);
    // What peers have begun, a connection to us above all, is let finish: destroying the worker in the middle of its
    // answer aborts the process in UCX 1.13.
    await this.until(() => this.loop.quietMs >= QUIET_MS, MAX_UNQUIET_MS);
    if (!isClosed) this.endpoints.abandonClosing();
    this.replies.abandon();
    await this.loop.stop();
    if (!isClosed) {
      leaked.push(this);
      return false;
    }
    this.#destroy();
    return true;
  }

  #destroy(): void {
    destroyWorker(this.library, this.worker);
    this.receiver.close();
    this.endpoints.dispose();
    this.memory.clear();
  }
}
