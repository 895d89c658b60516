/**
 * The progress loop, on the isolate that owns the streams.
 *
 * A turn makes progress until there is none, lets the transport settle, and then either takes another turn after the
 * event loop's other work (a short spin, while traffic is likely), or arms the worker and parks: `poll` on the event
 * descriptor, on another thread, whose return takes the next turn. The poll ends by itself after the backstop.
 *
 * No wake-up is lost: arming fails with "busy" as long as anything is unprocessed, and what this isolate does itself (a
 * send) asks for a turn by {@linkcode ProgressLoop.kick}. The worker may be armed again while the poll of an earlier
 * parking is still running: it waits on the same descriptor.
 *
 * Native queues move in real time only, so this loop does not go by a `Clock`.
 */
import { setImmediate } from "node:timers";
import { Layout } from "./layouts.ts";
import type { UcxLibrary } from "./library.ts";
import { structure } from "./memory.ts";
import { UcsStatus } from "./status.ts";
import type { UcxWorker } from "./worker.ts";

const POLL_IN = 1;
/** Longest stretch of progress in one turn, ms: the rest of the event loop has its turn then. */
const MAX_TURN_MS = 2;
/** Rounds of progress between two looks at the clock. */
const ROUNDS_PER_LOOK = 16;
/** Turns in a row that find the worker busy without any progress, before a pause is made between turns. */
const MAX_BUSY_TURNS = 64;
/** That pause, ms. Shared memory cannot be armed while a peer leaves a full queue untouched. */
const BUSY_PAUSE_MS = 1;

/** What the transport does in a turn. Both return whether anything happened. */
export interface TurnWork {
  /** After each round of progress that may have brought messages. */
  afterProgress(): boolean;
  /** At the end of the turn: completions, failures, closes. */
  settle(): boolean;
}

/** Settings of the loop. */
export interface ProgressOptions {
  /** How long to keep taking turns after the last activity, ms. */
  spinMs: number;
  /** Longest parking, ms. */
  backstopMs: number;
}

/** Counts of what the loop did. */
export interface ProgressCounts {
  turns: number;
  parks: number;
  busy: number;
}

/** See the head of this file. */
export class ProgressLoop {
  readonly counts: ProgressCounts = { turns: 0, parks: 0, busy: 0 };
  readonly #ucp: UcxLibrary["ucp"];
  readonly #poll: UcxLibrary["c"]["poll"];
  readonly #worker: bigint;
  readonly #descriptor: Uint8Array<ArrayBuffer>;
  readonly #work: TurnWork;
  readonly #options: ProgressOptions;
  readonly #turn = () => this.#takeTurn();
  #scheduled = false;
  #stopped = false;
  #paused = false;
  #inTurn = false;
  #polling: Promise<void> | null = null;
  #pause: ReturnType<typeof setTimeout> | null = null;
  #busyTurns = 0;
  #lastActivity = 0;
  #caughtUpAt = 0;

  constructor(library: UcxLibrary, worker: UcxWorker, work: TurnWork, options: ProgressOptions) {
    this.#ucp = library.ucp;
    this.#poll = library.c.poll;
    this.#worker = worker.worker;
    this.#work = work;
    this.#options = options;
    const descriptor = structure(Layout.pollDescriptor.size);
    descriptor.view.setInt32(Layout.pollDescriptor.descriptor, worker.eventDescriptor, true);
    descriptor.view.setInt16(Layout.pollDescriptor.events, POLL_IN, true);
    this.#descriptor = descriptor.bytes;
  }

  /** Time since there was last anything to do, ms. */
  get quietMs(): number {
    return performance.now() - this.#lastActivity;
  }

  /** When all that had come in had last been handed on, ms: now while the loop has nothing to do. */
  get caughtUpAt(): number {
    return this.#scheduled || this.#inTurn || this.#paused ? this.#caughtUpAt : performance.now();
  }

  /** Asks for a turn: something has been posted or has to be settled. */
  kick(): void {
    if (this.#scheduled || this.#stopped || this.#inTurn || this.#paused) return;
    this.#schedule();
  }

  /** Takes a turn now. For use outside of turns, while shutting down. */
  run(): void {
    if (!this.#stopped && !this.#inTurn) this.#advance();
  }

  /** Takes no turns until the returned function is called: a node that does not get to read. For tests. */
  pause(): () => void {
    this.#paused = true;
    return () => {
      this.#paused = false;
      this.kick();
    };
  }

  /** Ends the loop; resolves when no poll is running any more, so that the worker may be destroyed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#pause !== null) clearTimeout(this.#pause);
    this.#pause = null;
    while (this.#polling !== null) {
      this.#ucp.ucp_worker_signal(this.#worker);
      await this.#polling;
    }
  }

  #schedule(): void {
    this.#scheduled = true;
    setImmediate(this.#turn);
  }

  #takeTurn(): void {
    this.#scheduled = false;
    if (this.#stopped || this.#paused) return;
    this.#rest(this.#advance());
  }

  /** One turn. Returns whether there was anything to do. */
  #advance(): boolean {
    this.#inTurn = true;
    this.counts.turns++;
    let active = false;
    let isBehind = false;
    let rounds = 0;
    const start = performance.now();
    try {
      while (this.#ucp.ucp_worker_progress(this.#worker) !== 0) {
        active = true;
        // What has been handed on may have taken any time; progress alone takes little.
        const handedOn = this.#work.afterProgress();
        if ((handedOn || ++rounds % ROUNDS_PER_LOOK === 0) && performance.now() - start > MAX_TURN_MS) {
          isBehind = true;
          break;
        }
      }
      // A message can also come in outside of progress, by a send to ourselves.
      if (this.#work.afterProgress()) active = true;
      if (this.#work.settle()) active = true;
    } finally {
      this.#inTurn = false;
    }
    if (!isBehind) this.#caughtUpAt = start;
    if (active) this.#lastActivity = start;
    return active || start - this.#lastActivity < this.#options.spinMs;
  }

  /** Decides what comes after a turn. */
  #rest(again: boolean): void {
    if (this.#stopped || this.#scheduled) return;
    if (again) {
      this.#busyTurns = 0;
      this.#schedule();
      return;
    }
    if (this.#ucp.ucp_worker_arm(this.#worker) === UcsStatus.ok) {
      this.#busyTurns = 0;
      this.#park();
      return;
    }
    this.counts.busy++;
    if (++this.#busyTurns <= MAX_BUSY_TURNS) {
      this.#schedule();
      return;
    }
    if (this.#pause !== null) return;
    this.#pause = setTimeout(() => {
      this.#pause = null;
      this.kick();
    }, BUSY_PAUSE_MS);
  }

  #park(): void {
    this.counts.parks++;
    if (this.#polling !== null) return;
    this.#polling = this.#poll(this.#descriptor, 1n, this.#options.backstopMs).then(() => {
      this.#polling = null;
      this.kick();
    });
  }
}
