/** What the parts of one mux share. Built by `mux.ts`, which owns all of it. */
import type { Clock } from "../clock.ts";
import type { DeadlineLane } from "./deadlines.ts";
import type { EgressStream } from "./egress_stream.ts";
import type { IngressSlot } from "./ingress_slot.ts";
import type { MuxLink } from "./link.ts";
import type { MuxOptions } from "./options.ts";
import type { MuxStats } from "./stats.ts";

/** Something that has records to write. */
export interface Flushable {
  /** In the list of `flushSoon`; written by the mux. */
  flushQueued: boolean;
  /** Writes what its policy wants written now. */
  flush(): void;
}

/** Shared by every peer, lane and stream of a mux. */
export interface MuxContext {
  readonly clock: Clock;
  readonly link: MuxLink;
  readonly options: MuxOptions;
  readonly stats: MuxStats;
  /** Staged records whose linger is running; null when the policy knows no linger. */
  readonly lingers: DeadlineLane<Flushable> | null;
  /** One look per slot and heartbeat interval. */
  readonly watchdogs: DeadlineLane<IngressSlot>;
  /** The next epoch of this mux: one counter, from 1, never again the same within the process. */
  nextEpoch(): bigint;
  /** Has `flush` called once, after the events that are ready now. Asking again before that changes nothing. */
  flushSoon(target: Flushable): void;
  /** A producer's own code threw. */
  callbackFailed(error: unknown): void;
  /** A sender has ended, whatever the reason; called once per sender. */
  onStreamEnded(stream: EgressStream): void;
}
