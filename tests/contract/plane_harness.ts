/** What a plane has to bring along for the contract suite, and the two ends that the suite plays. */
import { assertEquals } from "@std/assert";
import type { Messenger } from "../../src/messenger/messenger.ts";
import type { ResponsePlane } from "../../src/plane/types.ts";
import type { Anchor, Sender, StreamConsumer, StreamEnd } from "../../src/stream.ts";

/** A started node: frontend or worker is what the suite makes of it. */
export interface PlaneNode {
  readonly messenger: Messenger;
  readonly plane: ResponsePlane;
}

/** Settings of one node; what a plane has no notion of it ignores. */
export interface PlaneNodeOptions {
  /** Data records that a sender may have under way. */
  readonly window?: number;
  /** Nothing is written before `flushBatch`. */
  readonly manualFlush?: boolean;
  /** How long a registered stream waits for its sender, ms. */
  readonly acceptTimeoutMs?: number;
}

/** One network for one test. */
export interface PlaneHarness {
  node(options?: PlaneNodeOptions): Promise<PlaneNode>;
  /** Breaks every connection over which `from` sends to `to`; new ones can be made. */
  cut(from: PlaneNode, to: PlaneNode): void;
  /** As if the node's process died. */
  kill(node: PlaneNode): void;
  /** Nothing passes between two nodes until the returned function is called. Absent: cannot be done here. */
  readonly partition?: (a: PlaneNode, b: PlaneNode) => () => void;
  /** Gauges of a node that are not zero though no stream is left. */
  leftovers(node: PlaneNode): Record<string, number>;
  /** Lets time pass until the condition holds. Throws after a while. */
  until(condition: () => boolean, what: string): Promise<void>;
  /** Lets time pass until the promise settles. */
  run<T>(promise: Promise<T>): Promise<T>;
  /** Lets a moment pass: long enough for anything wrong to show. */
  linger(): Promise<void>;
  /** Closes every node. */
  close(): Promise<void>;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Writes down what it got; throws when anything follows the end. */
export class TakingConsumer implements StreamConsumer {
  /** Data and notes in order; a note is shown with a `#` in front. */
  readonly items: string[] = [];
  readonly ends: StreamEnd[] = [];
  bytes = 0;
  /** Items that may still come before it pauses. */
  takes = Infinity;
  /** Sizes alone, for large items. */
  isCounting = false;
  anchor: Anchor | null = null;

  onData(bytes: Uint8Array, start: number, end: number): void {
    this.bytes += end - start;
    this.#took(this.isCounting ? String(end - start) : decoder.decode(bytes.subarray(start, end)));
  }

  onNote(text: string): void {
    this.#took(`#${text}`);
  }

  onEnd(end: StreamEnd): void {
    this.ends.push(end);
  }

  /** Lets `count` more items through. */
  take(count: number): void {
    this.takes = count;
    this.anchor?.resume();
  }

  #took(item: string): void {
    if (this.ends.length > 0) throw new Error("Cannot take an item: the stream has ended");
    this.items.push(item);
    if (--this.takes <= 0) this.anchor?.pause();
  }
}

/** A producer that holds back when told to. */
export class HoldingProducer {
  readonly sender: Sender;
  readonly ends: string[] = [];
  /** Items given to the sender. */
  sent = 0;
  readonly #total: number;
  readonly #make: (index: number) => Uint8Array;

  /** Sends `total` items and finalizes. */
  constructor(sender: Sender, total: number, make: (index: number) => Uint8Array) {
    this.sender = sender;
    this.#total = total;
    this.#make = make;
    sender.onWritable = () => this.pump();
    sender.onEnded = (why) => this.ends.push(why);
  }

  pump(): void {
    while (this.sent < this.#total) {
      if (!this.sender.sendData(this.#make(this.sent++))) break;
    }
    if (this.sent === this.#total) this.sender.finalize();
  }
}

/** Makes nodes known to each other, both ways. */
export function introduce(a: PlaneNode, b: PlaneNode): void {
  a.messenger.registerPeer(b.messenger.peerInfo);
  b.messenger.registerPeer(a.messenger.peerInfo);
}

/** One stream and both its ends. */
export interface PlaneStream {
  readonly consumer: TakingConsumer;
  readonly anchor: Anchor;
  readonly sender: Sender;
}

/** Registers a stream at the frontend and opens it at the worker. */
export function newStream(frontend: PlaneNode, worker: PlaneNode): PlaneStream {
  const consumer = new TakingConsumer();
  const anchor = frontend.plane.register(consumer, worker.messenger.instanceId);
  consumer.anchor = anchor;
  return { consumer, anchor, sender: worker.plane.open(anchor.ticket) };
}

/** The bytes of a text. */
export function bytesOf(text: string): Uint8Array {
  return encoder.encode(text);
}

/** `prefix0` to `prefix<count - 1>`. */
export function numberedItems(count: number, prefix = "t"): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

/** A frontend and a worker that know each other. */
export async function pair(harness: PlaneHarness, frontendWindow?: number): Promise<[PlaneNode, PlaneNode]> {
  const frontend = await harness.node(frontendWindow === undefined ? {} : { window: frontendWindow });
  const worker = await harness.node();
  introduce(frontend, worker);
  return [frontend, worker];
}

/** Waits until every stream has ended. */
export async function ended(harness: PlaneHarness, streams: readonly PlaneStream[]): Promise<void> {
  await harness.until(() => streams.every(({ consumer }) => consumer.ends.length > 0), "every stream to end");
}

/** Nothing of a finished stream is left on these nodes. */
export async function assertQuiet(harness: PlaneHarness, ...nodes: PlaneNode[]): Promise<void> {
  const isQuiet = () => nodes.every((node) => Object.keys(harness.leftovers(node)).length === 0);
  await harness.until(isQuiet, "nothing to be left").catch(() => {});
  assertEquals(nodes.map((node) => harness.leftovers(node)), nodes.map(() => ({})));
}

/** Sends `count` items, minding back-pressure, and finalizes. */
export function produce({ sender }: PlaneStream, count: number, prefix = "t"): HoldingProducer {
  const producer = new HoldingProducer(sender, count, (index) => bytesOf(`${prefix}${index}`));
  producer.pump();
  return producer;
}

/** One promise of every plane; its name in a table says what a plane does. */
export type Scenario = (harness: PlaneHarness) => Promise<void>;
