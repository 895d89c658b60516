/** One lane of one peer: what is sent on it, what is received on it, and the replies that tie the two. */
import type { InstanceId } from "../../transports/contract.ts";
import type { MuxAnchor } from "./anchor.ts";
import type { AnchorRegistry } from "./anchor_registry.ts";
import { Batcher } from "./batcher.ts";
import type { MuxContext } from "./context.ts";
import type { ByteBudget } from "./credit.ts";
import { Ingress } from "./ingress.ts";
import type { IngressHost } from "./ingress_host.ts";
import type { ReplyingLane, ReplyScheduler } from "./reply_scheduler.ts";

/** One lane. */
export class MuxLane implements IngressHost, ReplyingLane {
  readonly peer: InstanceId;
  readonly batcher: Batcher;
  readonly ingress: Ingress;
  /** When replies last went out, by the clock; written by the reply scheduler. */
  lastReplyAt = -Infinity;
  readonly #context: MuxContext;
  readonly #anchors: AnchorRegistry;
  readonly #replies: ReplyScheduler;

  constructor(
    context: MuxContext,
    anchors: AnchorRegistry,
    replies: ReplyScheduler,
    peer: InstanceId,
    lane: number,
    peerBytes: ByteBudget,
  ) {
    this.#context = context;
    this.peer = peer;
    this.#anchors = anchors;
    this.#replies = replies;
    this.batcher = new Batcher(context, peer, lane);
    this.ingress = new Ingress(context, this, peerBytes);
    this.batcher.setReplies(this.ingress.replies);
  }

  claim(anchorId: bigint, sessionId: bigint): MuxAnchor | null {
    return this.#anchors.claim(anchorId, sessionId, this.peer);
  }

  detached(anchor: MuxAnchor): void {
    this.#anchors.detached(anchor);
  }

  handleCredit(slot: number, delta: number): void {
    this.batcher.slots.get(slot)?.grant(delta);
  }

  handleRejected(slot: number): void {
    this.batcher.slots.get(slot)?.end("rejected");
  }

  replySoon(): void {
    this.#replies.add(this);
  }

  get owesReplies(): boolean {
    return this.ingress.replies.owed;
  }

  /** The reply scheduler says that it is time: writes what is owed. */
  writeReplies(): void {
    this.#context.stats.wakes.reply++;
    this.batcher.write();
  }

  replyNow(): void {
    this.batcher.wantReplies();
  }
}
