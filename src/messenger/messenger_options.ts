/** Settings of a messenger, and what it counts. */
import type { InstanceId, Transport } from "../../transports/contract.ts";
import type { Clock } from "../clock.ts";
import type { Logger } from "../observe/log.ts";
import type { StagingLimits } from "./staging.ts";
import type { PullLimits } from "./staging_pull.ts";

/** What {@linkcode Messenger} takes. */
export interface MessengerOptions {
  /** In order of preference; at least one. The messenger starts and stops them. */
  transports: readonly Transport[];
  /** Default: a new one. Never reuse one after a restart. */
  instanceId?: InstanceId;
  clock?: Clock;
  log?: Logger;
  /** Payloads over this are staged, bytes. Default 262,144. */
  stagingThreshold?: number;
  staging?: Partial<StagingLimits>;
  pulling?: Partial<PullLimits>;
  /** Peers known at a time. Default 4096. */
  maxPeers?: number;
  /** Requests being handled at a time; more are refused. Default 16,384. */
  maxInFlight?: number;
  /** Longest time for a `_hello`, ms. Default 30,000. */
  helloTimeoutMs?: number;
}

/** Plain numbers, read at scrape. */
export interface MessengerStats {
  /** Messages and answers that came to nothing, by reason. */
  dispatchFailures: Record<string, number>;
  /** Calls and messages of ours that a draining peer refused. */
  refusedByPeer: number;
  /** Answers that nobody waited for. */
  lateAnswers: number;
  /** Calls to a peer whose handlers were known, or need not be. */
  directCalls: number;
  /** Handshakes that calls had to wait for. */
  handshakes: { attempts: number; successes: number; errors: number };
}

/** Fresh counts. */
export function newMessengerStats(): MessengerStats {
  return {
    dispatchFailures: {},
    refusedByPeer: 0,
    lateAnswers: 0,
    directCalls: 0,
    handshakes: { attempts: 0, successes: 0, errors: 0 },
  };
}
