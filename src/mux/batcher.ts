/**
 * The sending side of one lane: streams put records in, batches come out.
 *
 * There is no queue between a stream and its batch: `stage…` encodes straight into the batch that is open. A batch
 * whose admission has to wait *parks* the batcher; records then fill the second batch, and what does not fit waits in
 * its stream's own withheld queue, where only that stream's budget is at stake. Nothing here blocks or allocates per
 * record.
 */
import type { InstanceId } from "../../transports/contract.ts";
import type { TokenplaneError } from "../errors.ts";
import { effectiveBatchCap } from "./batch_cap.ts";
import type { Flushable, MuxContext } from "./context.ts";
import { EgressSlots } from "./egress_slots.ts";
import type { EgressStream } from "./egress_stream.ts";
import { FlushGate } from "./flush_gate.ts";
import { Linger } from "./linger.ts";
import { OpenBatch } from "./open_batch.ts";
import type { ReplySource } from "./reply_source.ts";
import { Staged } from "./staged.ts";
import { BATCH_HEADER_BYTES, CloseReason, RecordType, writeBatchHeader } from "./wire/batch.ts";
import {
  CLOSE_SLOT_BYTES,
  encodedDataBytes,
  encodedItemBytes,
  HEARTBEAT_BYTES,
  OPEN_SLOT_BYTES,
  RecordBuffer,
} from "./wire/record_buffer.ts";
import type { ItemKind } from "./wire/stream_frame.ts";

/** With less than this there is no use in asking streams for records. */
const MIN_ROOM_BYTES = CLOSE_SLOT_BYTES;

/** One lane's egress. */
export class Batcher implements Flushable {
  readonly peer: InstanceId;
  readonly lane: number;
  readonly slots = new EgressSlots();
  flushQueued = false;
  readonly #context: MuxContext;
  readonly #gate: FlushGate;
  #replies: ReplySource | null = null;
  #epoch: bigint;
  #seq = 0;
  #open = this.#newBatch();
  #idle = this.#newBatch();
  #parked = false;
  #cap: number;
  /** Counts the batches that were filled: what streams remember of where their last record went. */
  #fill = 0;
  /** Streams that could pay for a withheld record and found no room. */
  #congested: EgressStream[] = [];
  /** Streams whose beat found no room. */
  readonly #lateBeats = new Set<EgressStream>();
  /** Streams whose fence an admission has lifted, to be told at the end of this wake: not amid someone's send. */
  #lifted: EgressStream[] = [];
  readonly #linger: Linger | null;

  constructor(context: MuxContext, peer: InstanceId, lane: number) {
    this.#context = context;
    this.peer = peer;
    this.lane = lane;
    this.#gate = new FlushGate(context.options.flush);
    this.#epoch = context.nextEpoch();
    this.#cap = this.#currentCap();
    this.#linger = context.lingers === null ? null : new Linger(context.lingers, this);
  }

  /** Connects the receiving side of the lane, which owes grants. */
  setReplies(source: ReplySource): void {
    this.#replies = source;
  }

  get parked(): boolean {
    return this.#parked;
  }

  /**
   * Opens a slot for the stream; false when every slot is taken. The record goes out at the end of this wake. While
   * the lane is parked and full the stream keeps slot -1 and asks again when there is room.
   */
  open(stream: EgressStream): boolean {
    if (!this.#makeRoom(OPEN_SLOT_BYTES, 1)) {
      stream.waitForRoom();
      return true;
    }
    const slot = this.slots.allocate(stream, this.#context.options.maxSlotsPerPeer);
    if (slot < 0) return false;
    stream.slot = slot;
    stream.seq = 1;
    this.#context.stats.liveEgressSlots++;
    // Among the data, in order: its index may be that of a slot whose close is in this very batch.
    this.#open.data.appendOpenSlot(slot, stream.handle.lo, stream.sessionId);
    stream.stagedIn = this.#fill;
    if (this.#context.options.asyncOpenAck) {
      stream.fenced = true;
      this.#open.fencedOpens.push(stream);
    }
    this.#stagedRecord(true);
    return true;
  }

  /** Stages one item of a stream that has credit. The caller has spent nothing yet; on `yes` and `fenced` it has. */
  stageItem(stream: EgressStream, kind: ItemKind, bytes: Uint8Array): Staged {
    const size = encodedItemBytes(kind, bytes.length);
    if (BATCH_HEADER_BYTES + size > this.#cap) {
      const single = new RecordBuffer(size);
      if (kind === "data") single.appendItemData(stream.slot, stream.seq, bytes, 0, bytes.length);
      else single.appendItemText(stream.slot, stream.seq, bytes);
      return this.#sendAlone(stream, single);
    }
    if (!this.#makeRoom(size, 1)) return Staged.noRoom;
    const data = this.#open.data;
    if (kind === "data") data.appendItemData(stream.slot, stream.seq++, bytes, 0, bytes.length);
    else data.appendItemText(stream.slot, stream.seq++, bytes);
    stream.stagedIn = this.#fill;
    this.#stagedRecord(stream.takeUrgency());
    return Staged.yes;
  }

  /** The same for a stream frame that is encoded already. */
  stageFrame(stream: EgressStream, frame: Uint8Array, urgent = false): Staged {
    const size = encodedDataBytes(frame.length);
    if (BATCH_HEADER_BYTES + size > this.#cap) {
      const single = new RecordBuffer(size);
      single.appendData(stream.slot, stream.seq, frame, 0, frame.length);
      return this.#sendAlone(stream, single);
    }
    if (!this.#makeRoom(size, 1)) return Staged.noRoom;
    this.#open.data.appendData(stream.slot, stream.seq++, frame, 0, frame.length);
    stream.stagedIn = this.#fill;
    this.#stagedRecord(urgent || stream.takeUrgency());
    return Staged.yes;
  }

  /** Stages a terminal and its CloseSlot, side by side in one batch, and takes the slot back. */
  stageTerminal(stream: EgressStream, frame: Uint8Array): Staged {
    if (!this.#makeRoom(encodedDataBytes(frame.length) + CLOSE_SLOT_BYTES, 2)) return Staged.noRoom;
    const data = this.#open.data;
    data.appendData(stream.slot, stream.seq++, frame, 0, frame.length);
    data.appendClose(stream.slot, stream.seq++, CloseReason.terminalSent);
    this.#context.stats.stagedRecords++;
    this.#stagedRecord(true);
    this.releaseSlot(stream);
    return Staged.yes;
  }

  /** Closes a slot whose producer vanished; the consumer sees Dropped. */
  stageGone(stream: EgressStream): Staged {
    if (!this.#makeRoom(CLOSE_SLOT_BYTES, 1)) return Staged.noRoom;
    this.#open.data.appendClose(stream.slot, stream.seq++, CloseReason.peerGone);
    this.#stagedRecord(true);
    this.releaseSlot(stream);
    return Staged.yes;
  }

  /**
   * Stages a beat that costs no credit. It goes before all data; a stream that has a record in the open batch needs
   * none, and has that batch written instead.
   */
  stageBeat(stream: EgressStream): void {
    if (stream.stagedIn !== this.#fill) {
      if (!this.#makeRoom(HEARTBEAT_BYTES, 1)) {
        this.#lateBeats.add(stream);
        return;
      }
      this.#open.urgent.appendHeartbeat(stream.slot, stream.seq++);
      stream.stagedIn = this.#fill;
      this.#stagedRecord(true);
      return;
    }
    this.#gate.urgent();
    this.#context.flushSoon(this);
  }

  /** Gives a slot back without a word to the peer. */
  releaseSlot(stream: EgressStream): void {
    if (this.slots.get(stream.slot) !== stream) return;
    this.slots.release(stream.slot);
    this.#context.stats.liveEgressSlots--;
  }

  /** Remembers a stream that has withheld records it could pay for, until there is room. */
  addCongested(stream: EgressStream): void {
    this.#congested.push(stream);
  }

  /** The receiving side owes something that must not wait for the reply linger. */
  wantReplies(): void {
    this.#gate.urgent();
    this.#context.flushSoon(this);
  }

  /** Covers everything staged so far, whatever the policy. */
  kick(): void {
    if (this.#open.count === 0) return;
    this.#context.stats.wakes.kick++;
    this.#gate.kick();
    this.flush();
  }

  /** Writes if the policy says so. */
  flush(): void {
    if (this.#lifted.length > 0) this.#releaseLifted();
    if (this.#gate.shouldWrite(this.#context.clock.now())) this.write();
  }

  /** Writes what is staged and owed, unless parked (then the end of the park does). */
  write(): void {
    const replies = this.#replies;
    do {
      if (this.#parked) return;
      if (replies !== null && replies.owed) replies.appendReplies(this.#open, this.#cap);
      if (this.#open.count === 0) break;
      this.#writeOpen();
    } while (replies !== null && replies.owed && !this.#parked);
    if (this.#open.count === 0) this.#gate.written();
  }

  /**
   * The lane is gone and with it, perhaps, anything admitted: every stream on it ends once, what is staged is
   * discarded, and a new epoch begins. The peer learns from the next batch.
   */
  die(reason: string): void {
    const stats = this.#context.stats;
    stats.stagedRecords -= this.#open.count;
    if (this.slots.live > 0 || this.#parked || this.#open.count > 0) stats.epochDeaths++;
    this.#epoch = this.#context.nextEpoch();
    this.#seq = 0;
    this.#parked = false;
    // Not reset but replaced: a transport may still hold parts of the old ones.
    this.#open = this.#newBatch();
    this.#idle = this.#newBatch();
    this.#fill++;
    const waiting = this.#congested;
    this.#congested = [];
    this.#lifted = [];
    this.#lateBeats.clear();
    this.#gate.discarded();
    this.#linger?.stop();
    this.#replies?.lost(reason);
    for (const stream of this.slots.streams()) stream.end("peer_lost");
    // Those that waited for a slot have none to be found by.
    for (const stream of waiting) stream.end("peer_lost");
  }

  #newBatch(): OpenBatch {
    const batch: OpenBatch = new OpenBatch((error) => this.#admitted(batch, error));
    return batch;
  }

  /** Makes room for a record in the open batch, writing it first if need be. False: parked and full. */
  #makeRoom(size: number, records: number): boolean {
    if (this.#open.hasRoom(size, records, this.#cap)) return true;
    if (this.#parked) return false;
    if (this.#open.count > 0) this.#writeOpen();
    return true;
  }

  #writeOpen(): void {
    this.#gate.written();
    this.#linger?.stop();
    this.#fill++;
    this.#writeBatch(this.#open);
  }

  #writeBatch(batch: OpenBatch): void {
    const count = batch.count;
    const { stats, link } = this.#context;
    const parts = batch.seal(this.lane, this.#epoch, this.#seq++);
    batch.countTypes(stats.recordsSentByType);
    stats.sent(count);
    stats.stagedRecords -= count;
    const admitted = link.sendBatch(this.peer, this.lane, parts, batch.admission);
    this.#cap = this.#currentCap();
    if (admitted) {
      this.#unfenceOpens(batch);
      batch.reset();
    } else {
      this.#parked = true;
      if (batch === this.#idle) return;
      this.#open = this.#idle;
      this.#idle = batch;
    }
  }

  #admitted(batch: OpenBatch, error: TokenplaneError | null): void {
    if (batch !== this.#idle) return; // of an epoch that has died
    if (error !== null) {
      this.die(error.message);
      return;
    }
    this.#parked = false;
    this.#context.stats.wakes.admitted++;
    this.#unfenceOpens(batch);
    batch.reset();
    this.#writeUrgent();
    this.#releaseLifted();
    this.#releaseCongested();
    // Whatever gathered during the park has waited long enough.
    this.write();
  }

  /**
   * What must not wait behind data, after a park: beats that found no room, and replies. Streams that wait for room
   * would fill the lane again and again before them, so they get a batch of their own when the open one is filling up.
   */
  #writeUrgent(): void {
    const batch = this.#open.bytes * 2 <= this.#cap ? this.#open : this.#idle;
    for (const stream of this.#lateBeats) {
      if (batch.count > 0 && !batch.hasRoom(HEARTBEAT_BYTES, 1, this.#cap)) break;
      this.#lateBeats.delete(stream);
      // One with a record in the open batch is about to be heard.
      if (this.slots.get(stream.slot) !== stream || stream.stagedIn === this.#fill) continue;
      batch.urgent.appendHeartbeat(stream.slot, stream.seq++);
      this.#context.stats.stagedRecords++;
    }
    if (this.#replies?.owed) this.#replies.appendReplies(batch, this.#cap);
    if (batch === this.#idle && batch.count > 0) this.#writeBatch(batch);
  }

  /** Lets streams go on that have waited for room, first come, first served, until the lane is full again. */
  #releaseCongested(): void {
    const congested = this.#congested;
    this.#congested = [];
    for (let i = 0; i < congested.length; i++) {
      if (this.#parked && !this.#open.hasRoom(MIN_ROOM_BYTES, 1, this.#cap)) {
        this.#congested = congested.slice(i).concat(this.#congested);
        return;
      }
      congested[i]!.hasRoom();
    }
  }

  #unfenceOpens(batch: OpenBatch): void {
    if (batch.fencedOpens.length === 0) return;
    for (const stream of batch.fencedOpens) {
      stream.fenced = false;
      this.#lifted.push(stream);
    }
    this.#context.flushSoon(this);
  }

  #releaseLifted(): void {
    const lifted = this.#lifted;
    this.#lifted = [];
    for (const stream of lifted) stream.release();
  }

  /** A record too large for any shared batch travels in one of its own; only its slot waits for it. */
  #sendAlone(stream: EgressStream, record: RecordBuffer): Staged {
    if (this.#parked) return Staged.noRoom;
    if (this.#open.count > 0) this.#writeOpen();
    if (this.#parked) return Staged.noRoom;
    const { stats, link } = this.#context;
    const slot = stream.slot;
    const epoch = this.#epoch;
    const header = new Uint8Array(BATCH_HEADER_BYTES);
    writeBatchHeader(header, 0, this.lane, 1, epoch, this.#seq++);
    stream.seq++;
    stream.fenced = true;
    stats.singletons++;
    stats.sent(1);
    stats.recordsSentByType[RecordType.data]!++;
    const parts = [header, record.bytes.subarray(0, record.length)];
    const settle = (error: TokenplaneError | null): void => {
      if (epoch !== this.#epoch) return;
      const current = this.slots.get(slot);
      if (current === null) {
        if (error !== null) stats.dropped.stale_singleton++;
      } else if (error?.code === "overloaded" || error?.code === "timeout") {
        // Too large to stage now, or never pulled: the lane is well, this record is all that is lost.
        current.recordLost();
      } else if (error !== null) {
        this.die(error.message);
      } else {
        current.fenced = false;
        current.release();
      }
    };
    if (link.sendBatch(this.peer, this.lane, parts, settle)) {
      stream.fenced = false;
      return Staged.yes;
    }
    return Staged.fenced;
  }

  #stagedRecord(urgent: boolean): void {
    this.#context.stats.stagedRecords++;
    const first = this.#gate.staged(this.#context.clock);
    if (urgent) this.#gate.urgent();
    if (urgent || this.#gate.onAdmission) this.#context.flushSoon(this);
    else if (first) this.#linger?.start();
  }

  #currentCap(): number {
    return effectiveBatchCap(this.#context.options.maxBatchBytes, this.#context.link.eagerBudget(this.peer));
  }
}
