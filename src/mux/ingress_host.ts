/** The seam between one lane's ingress and the lane and mux around it. */
import type { MuxAnchor } from "./anchor.ts";

/** What an ingress needs of the lane and the mux around it. */
export interface IngressHost {
  /** Claims the bind of (anchor, session) for this peer, or null. */
  claim(anchorId: bigint, sessionId: bigint): MuxAnchor | null;
  /** The sender detached: another one may claim the anchor. */
  detached(anchor: MuxAnchor): void;
  /** Records about slots that this side owns. */
  handleCredit(slot: number, delta: number): void;
  handleRejected(slot: number): void;
  /** Grants are owed: they may wait for company. */
  replySoon(): void;
  /** Something is owed that must not wait. */
  replyNow(): void;
}
