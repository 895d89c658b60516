/** One mux alone: what it sends is written down as text, what it receives is made by hand. */
import { TokenplaneError } from "../../src/errors.ts";
import type { BatchSource } from "../../src/mux/ingress_slot.ts";
import type { AttachGrant, MuxLink } from "../../src/mux/link.ts";
import { Mux } from "../../src/mux/mux.ts";
import type { MuxOptions } from "../../src/mux/options.ts";
import type { EgressStream } from "../../src/mux/egress_stream.ts";
import type { MuxAnchor } from "../../src/mux/anchor.ts";
import { RecordBuffer } from "../../src/mux/wire/record_buffer.ts";
import { newBatchHeader, readBatchHeader, RecordType, writeU32, writeU64 } from "../../src/mux/wire/batch.ts";
import { slotGeneration, slotIndex } from "../../src/mux/wire/slot_id.ts";
import { classifyFrame, FrameKind, newItemView, readItem } from "../../src/mux/wire/stream_frame.ts";
import type { Handle, Ticket } from "../../src/stream.ts";
import type { Admission } from "../../transports/contract.ts";
import { naiveBatch, naiveDecode, type NaiveRecord } from "./naive_batch.ts";
import { RecordingConsumer } from "./recording_consumer.ts";
import { VirtualClock } from "./virtual_clock.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();
const NONE = new Uint8Array(0);

/** A batch that a mux has sent. */
export interface SentBatch {
  readonly peer: string;
  readonly lane: number;
  readonly epoch: bigint;
  readonly seq: number;
  readonly bytes: Uint8Array;
  /** `data 0.0 #1 text`, `close 0.0 #2 reason 0`, `credit 0.0 +3`, … with slot index and generation. */
  readonly records: string[];
}

/** A link that keeps everything, and admits at once unless it is told to hold. */
export class FakeLink implements MuxLink {
  readonly sent: SentBatch[] = [];
  readonly stops: Handle[] = [];
  readonly cancels: bigint[] = [];
  /** Batches are not admitted while set. */
  holding = false;
  readonly pending: Admission[] = [];
  eager = 262_109;
  grant: AttachGrant | null = null;

  sendBatch(peer: string, lane: number, parts: readonly Uint8Array[], admission: Admission): boolean {
    const bytes = Uint8Array.from(parts.flatMap((part) => [...part]));
    const header = newBatchHeader();
    readBatchHeader(bytes, header);
    const { records, error } = naiveDecode(bytes);
    if (error !== null) throw new Error(`Cannot decode what the mux sent: ${error}`);
    this.sent.push({
      peer,
      lane,
      epoch: header.epoch,
      seq: header.seq,
      bytes,
      records: records.map(describe),
    });
    if (this.holding) this.pending.push(admission);
    return !this.holding;
  }

  /** Answers the oldest admission that waits. */
  admit(error: TokenplaneError | null = null): void {
    this.pending.shift()!(error);
  }

  lanesTo(): number {
    return 16;
  }

  eagerBudget(): number {
    return this.eager;
  }

  sendStop(_peer: string, handle: Handle): void {
    this.stops.push(handle);
  }

  sendCancel(_peer: string, streamId: bigint): void {
    this.cancels.push(streamId);
  }

  attach(): Promise<AttachGrant> {
    return this.grant === null
      ? Promise.reject(new TokenplaneError("remote", "Refused"))
      : Promise.resolve(this.grant);
  }
}

/** The mux and its surroundings. */
export class SoloMux {
  readonly clock = new VirtualClock();
  readonly link = new FakeLink();
  readonly errors: unknown[] = [];
  readonly mux: Mux;
  /** How far the reading of what is received has got; undefined for one that keeps up. */
  source: BatchSource | undefined = undefined;
  #session = 1n;
  #anchorId = 1n;

  constructor(options: Partial<MuxOptions> = {}) {
    const identity = {
      workerId: 7n,
      peerInfo: { instanceId: "self", workerAddress: new Uint8Array([0x80]) },
    };
    const events = { onConsumerError: (error: unknown) => this.errors.push(error) };
    this.mux = new Mux(this.clock, this.link, identity, { lanes: 1, ...options }, events);
  }

  /** A sender to `peer`, as if it had sent a ticket. */
  open(ticket: Partial<Ticket> = {}, peer = "peer"): EgressStream {
    return this.mux.open(peer, {
      handle: { hi: 9n, lo: this.#anchorId++ },
      routingSessionId: this.#session++,
      initialCredit: 4,
      slotByteBudget: 0,
      heartbeatIntervalMs: 5_000,
      lanes: 1,
      freeBeats: true,
      peer: { instanceId: peer, workerAddress: new Uint8Array([0x80]) },
      ...ticket,
    }) as EgressStream;
  }

  /** A stream that `peer` may send. */
  register(peer: string | null = "peer"): { anchor: MuxAnchor; consumer: RecordingConsumer } {
    const consumer = new RecordingConsumer();
    const anchor = this.mux.register(consumer, peer);
    consumer.anchor = anchor;
    return { anchor, consumer };
  }

  /** Hands over one batch of `peer`. */
  receive(
    records: readonly NaiveRecord[],
    { peer = "peer", connection = 1, epoch = 1n, flags = 0 } = {},
  ): void {
    this.mux.handleBatch(peer, connection, naiveBatch(records, { epoch, flags }), this.source);
    this.mux.handleReadEnd();
  }

  /** Lets everything due now or within `ms` happen, and returns the records sent since the last call. */
  take(ms = 0): string[] {
    this.clock.advance(ms);
    return this.link.sent.splice(0).flatMap((batch) => batch.records);
  }

  /** As `take`, batch by batch. */
  takeBatches(ms = 0): string[][] {
    this.clock.advance(ms);
    return this.link.sent.splice(0).map((batch) => batch.records);
  }
}

/** Slot id of an index and generation. */
export function id(index: number, generation = 0): number {
  return ((index << 8) | generation) >>> 0;
}

export function text(value: string): Uint8Array {
  return encoder.encode(value);
}

/** Records to be received. `slot` is a whole id. */
export const record = {
  open(slot: number, anchor: MuxAnchor, seq = 0): NaiveRecord {
    return record.openRaw(slot, BigInt(anchor.localId), anchor.sessionId, seq);
  },
  openRaw(slot: number, anchorId: bigint, sessionId: bigint, seq = 0): NaiveRecord {
    const body = new Uint8Array(16);
    writeU64(body, 0, anchorId);
    writeU64(body, 8, sessionId);
    return { type: RecordType.openSlot, slot, seq, body };
  },
  item(slot: number, seq: number, value: string | Uint8Array): NaiveRecord {
    const buffer = new RecordBuffer(64);
    const bytes = typeof value === "string" ? text(value) : value;
    buffer.appendItemData(slot, seq, bytes, 0, bytes.length);
    return { type: RecordType.data, slot, seq, body: buffer.bytes.slice(13, buffer.length) };
  },
  note(slot: number, seq: number, value: string): NaiveRecord {
    const buffer = new RecordBuffer(64);
    buffer.appendItemText(slot, seq, text(value));
    return { type: RecordType.data, slot, seq, body: buffer.bytes.slice(13, buffer.length) };
  },
  frame(slot: number, seq: number, body: Uint8Array): NaiveRecord {
    return { type: RecordType.data, slot, seq, body };
  },
  beat(slot: number, seq: number): NaiveRecord {
    return { type: RecordType.heartbeat, slot, seq, body: NONE };
  },
  close(slot: number, seq: number, reason: number): NaiveRecord {
    return { type: RecordType.closeSlot, slot, seq, body: new Uint8Array([reason]) };
  },
  credit(slot: number, delta: number): NaiveRecord {
    const body = new Uint8Array(4);
    writeU32(body, 0, delta);
    return { type: RecordType.creditUpdate, slot, seq: 0, body };
  },
};

function describe({ type, slot, seq, body }: NaiveRecord): string {
  const name = `${slotIndex(slot)}.${slotGeneration(slot)}`;
  switch (type) {
    case RecordType.openSlot:
      return `open ${name} #${seq}`;
    case RecordType.closeSlot:
      return `close ${name} #${seq} reason ${body[0]}`;
    case RecordType.creditUpdate:
      return `credit ${name} +${new DataView(body.buffer).getUint32(0)}`;
    case RecordType.heartbeat:
      return `beat ${name} #${seq}`;
  }
  return `data ${name} #${seq} ${frameText(body)}`;
}

function frameText(body: Uint8Array): string {
  const kind = classifyFrame(body, 0, body.length);
  if (kind !== FrameKind.item) {
    return `<${Object.keys(FrameKind).find((name) => FrameKind[name as keyof typeof FrameKind] === kind)}>`;
  }
  const view = newItemView();
  readItem(body, 0, body.length, view);
  const value = decoder.decode(body.subarray(view.start, view.end));
  return value.length > 40 ? `(${value.length})` : value;
}
