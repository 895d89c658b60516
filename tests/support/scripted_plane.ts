/** A response plane without a network: the test is the worker. */
import type { InstanceId } from "../../transports/contract.ts";
import type { ProducerOutcome, TokenUsage } from "../../src/outcome.ts";
import { encodeHeadNote, encodeSummaryNote } from "../../src/plane/notes.ts";
import type { Anchor, Sender, StreamConsumer, StreamEnd, Ticket } from "../../src/stream.ts";
import type { ResponsePlane } from "../../src/plane/types.ts";

const encoder = new TextEncoder();
const READ_BYTES = 65_536;
/** Between two items: their headers. */
const GAP_BYTES = 21;

/** The worker's hold on one stream; also the anchor that the frontend was given. */
export class ScriptedStream implements Anchor {
  readonly ticket: Ticket;
  readonly producer: InstanceId | null;
  readonly #plane: ScriptedPlane;
  readonly #consumer: StreamConsumer;
  readonly #waiting: (() => void)[] = [];
  isPaused = false;
  pauses = 0;
  /** Why the frontend cancelled; null while it has not. */
  cancelled: string | null = null;
  hasEnded = false;
  /** Data bytes handed to the consumer. */
  delivered = 0;

  constructor(plane: ScriptedPlane, consumer: StreamConsumer, producer: InstanceId | null, ticket: Ticket) {
    this.#plane = plane;
    this.#consumer = consumer;
    this.producer = producer;
    this.ticket = ticket;
  }

  /** Items that wait for the consumer. */
  get waiting(): number {
    return this.#waiting.length;
  }

  pause(): void {
    this.isPaused = true;
    this.pauses++;
  }

  resume(): void {
    this.isPaused = false;
    this.#drain();
  }

  cancel(reason: string): void {
    if (this.hasEnded || this.cancelled !== null) return;
    this.cancelled = reason;
    this.#waiting.length = 0;
  }

  head(status = 200, contentType = "text/event-stream"): this {
    return this.note(encodeHeadNote({ status, contentType }));
  }

  note(text: string): this {
    return this.#push(() => this.#consumer.onNote(text));
  }

  /** One data item, somewhere in the buffer of the plane's reads. It is scribbled over after the call, as there. */
  data(item: string | Uint8Array): this {
    const bytes = typeof item === "string" ? encoder.encode(item) : item;
    return this.#push(() => {
      const { buffer, at } = this.#plane.read(bytes);
      this.delivered += bytes.length;
      this.#consumer.onData(buffer, at, at + bytes.length);
      buffer.fill(0x3f, at, at + bytes.length);
    });
  }

  summary(
    outcome: ProducerOutcome = "ok",
    finishReasons: readonly string[] = ["stop"],
    usage: TokenUsage | null = null,
    detail?: string,
  ): this {
    return this.note(
      encodeSummaryNote({ outcome, usage, finishReasons, ...(detail === undefined ? {} : { detail }) }),
    );
  }

  end(end: StreamEnd = { kind: "finalized" }): this {
    return this.#push(() => {
      this.hasEnded = true;
      this.#consumer.onEnd(end);
    });
  }

  /** Summary `ok` and a clean end. */
  finish(): this {
    return this.summary().end();
  }

  drop(reason = "lane lost"): this {
    return this.end({ kind: "dropped", reason });
  }

  /** Everything said so far arrives in one read. */
  flush(): this {
    this.#plane.delivered();
    return this;
  }

  #push(item: () => void): this {
    if (this.hasEnded || this.cancelled !== null) return this;
    this.#waiting.push(item);
    if (!this.isPaused) this.#drain();
    return this;
  }

  #drain(): void {
    while (!this.isPaused && this.cancelled === null) {
      const item = this.#waiting.shift();
      if (item === undefined) return;
      item();
    }
  }
}

/** {@linkcode ResponsePlane} whose streams the test drives. */
export class ScriptedPlane implements ResponsePlane {
  /** All reads go through it, as those of a connection do: items lie at any offset, one behind the other. */
  readonly #reads = new Uint8Array(READ_BYTES).subarray(1);
  #at = 0;
  readonly streams: ScriptedStream[] = [];
  #callback: () => void = () => {};
  #next = 1n;
  onRegister: (stream: ScriptedStream) => void = () => {};

  register(consumer: StreamConsumer, producer: InstanceId | null): ScriptedStream {
    const ticket: Ticket = {
      handle: { hi: 7n, lo: this.#next++ },
      routingSessionId: 1n,
      initialCredit: 32,
      slotByteBudget: 0,
      heartbeatIntervalMs: 5_000,
      lanes: 1,
      freeBeats: true,
      peer: { instanceId: "00000000-0000-4000-8000-000000000000", workerAddress: new Uint8Array([0x80]) },
    };
    const stream = new ScriptedStream(this, consumer, producer, ticket);
    this.streams.push(stream);
    this.onRegister(stream);
    return stream;
  }

  /** Streams that neither ended nor were cancelled. */
  get live(): number {
    return this.streams.filter((stream) => !stream.hasEnded && stream.cancelled === null).length;
  }

  open(): Sender {
    throw new Error("Cannot open: a frontend has no sending end");
  }

  flushBatch(): void {}

  onDelivered(callback: () => void): void {
    this.#callback = callback;
  }

  /** Where an item lies while it is delivered. */
  read(item: Uint8Array): { readonly buffer: Uint8Array; readonly at: number } {
    if (item.length + GAP_BYTES > this.#reads.length) return { buffer: item.slice(), at: 0 };
    if (this.#at + GAP_BYTES + item.length > this.#reads.length) this.#at = 0;
    const at = this.#at + GAP_BYTES;
    this.#reads.set(item, at);
    this.#at = at + item.length;
    return { buffer: this.#reads, at };
  }

  /** The end of a read. */
  delivered(): void {
    this.#callback();
  }

  close(): void {}
}
