/** One isolate of a shard, as its supervisor sees it: from its start to its end, however that comes. */
import { TokenplaneError } from "../../errors.ts";
import { closeAbandoned } from "../../frontend/egress/direct_send.ts";
import { DescriptorTable } from "../../frontend/egress/descriptor_table.ts";
import type { HostPort } from "../../config/host_port.ts";
import type { ModelCard } from "../../routing/worker.ts";
import type { ShardCommand, ShardEvent, ShardStart } from "./messages.ts";

/** How long a shard may take until it accepts, ms. Its modules are compiled first, on a machine that may be busy. */
const START_TIMEOUT_MS = 20_000;
/** Code that runs in an isolate when it is cut off has come to its end by then, ms. */
export const STOPPED_MS = 250;

/** Who a shard reports to. */
export interface ShardHost {
  /** Something that {@linkcode Shard} shows has changed. */
  onChange(): void;
  onScrape(shard: Shard, id: number): void;
  onCollected(shard: Shard, event: Extract<ShardEvent, { kind: "collected" }>): void;
  /** It is over without having been asked to close. Called once at most. */
  onDied(shard: Shard, error: TokenplaneError): void;
}

/** See above. */
export class Shard {
  readonly index: number;
  /** Resolves when it serves; rejects when it cannot or died before. */
  readonly accepting: Promise<void>;
  /** Where workers join; null before that. */
  node: HostPort | null = null;
  /** Where clients are served; null before that. */
  http: HostPort | null = null;
  models: readonly ModelCard[] = [];
  workers = 0;
  isDead = false;
  readonly #host: ShardHost;
  readonly #isolate: Worker;
  readonly #descriptors = new DescriptorTable();
  readonly #start = Promise.withResolvers<void>();
  readonly #drained = Promise.withResolvers<void>();
  readonly #closed = Promise.withResolvers<void>();
  #isLoaded = false;
  #isClosing = false;
  #timer: ReturnType<typeof setTimeout>;

  constructor(start: Omit<ShardStart, "kind" | "descriptors">, host: ShardHost) {
    this.index = start.index;
    this.accepting = this.#start.promise;
    this.accepting.catch(() => {}); // onDied says it too
    this.#host = host;
    this.#isolate = new Worker(new URL("./shard_isolate.ts", import.meta.url).href, {
      type: "module",
      name: `shard-${start.index}`,
    });
    const descriptors = this.#descriptors.memory;
    this.#isolate.onmessage = ({ data }: MessageEvent<ShardEvent>) => {
      if (this.isDead) return;
      if (data.kind !== "loaded") return this.#handle(data);
      this.#isLoaded = true;
      this.send({ ...start, kind: "start", descriptors });
    };
    this.#isolate.onerror = (event) => {
      event.preventDefault(); // or it would end the process
      this.#die(new TokenplaneError("internal", `Shard ${start.index} failed: ${event.message}`));
    };
    this.#timer = setTimeout(
      () =>
        this.#die(
          new TokenplaneError("timeout", `Cannot start shard ${start.index}: it did not serve in time`),
        ),
      START_TIMEOUT_MS,
    );
  }

  get isAccepting(): boolean {
    return this.http !== null && !this.isDead;
  }

  send(command: ShardCommand): void {
    if (this.#isLoaded && !this.isDead) this.#isolate.postMessage(command);
  }

  /** Cuts it off where it stands: its connections are closed, its streams end there. */
  terminate(): void {
    this.#die(new TokenplaneError("internal", `Shard ${this.index} was cut off`));
  }

  /** Resolves when it has drained, is dead, or was given up on. */
  async drain(timeoutMs: number, giveUpMs: number): Promise<void> {
    this.send({ kind: "drain", timeoutMs });
    await within(this.#drained.promise, giveUpMs);
  }

  /** Resolves when it has ended everything, is dead, or was given up on; the isolate is gone then. */
  async close(giveUpMs: number): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#timer);
    this.send({ kind: "close" });
    if (this.#isLoaded) await within(this.#closed.promise, giveUpMs);
    await this.#end();
  }

  #handle(event: Exclude<ShardEvent, { kind: "loaded" }>): void {
    switch (event.kind) {
      case "listening":
        this.node = event.node;
        return this.#host.onChange();
      case "accepting":
        this.http = event.http;
        clearTimeout(this.#timer);
        this.#start.resolve();
        return this.#host.onChange();
      case "offer":
        this.models = event.models;
        this.workers = event.workers;
        return this.#host.onChange();
      case "failed":
        return this.#die(new TokenplaneError(event.code, event.message));
      case "scrape":
        return this.#host.onScrape(this, event.id);
      case "collected":
        return this.#host.onCollected(this, event);
      case "drained":
        return this.#drained.resolve();
      case "closed":
        return this.#closed.resolve();
    }
  }

  #die(error: TokenplaneError): void {
    if (this.isDead) return;
    const wasClosing = this.#isClosing;
    void this.#end();
    this.#start.reject(error);
    if (!wasClosing) this.#host.onDied(this, error);
  }

  /** Idempotent; resolves when nothing is left of it. */
  async #end(): Promise<void> {
    if (this.isDead) return;
    this.isDead = true;
    clearTimeout(this.#timer);
    this.#isolate.terminate();
    this.#drained.resolve();
    this.#closed.resolve();
    if (this.#descriptors.isEmpty) return;
    // Only when its last send is certainly over may the descriptors' numbers become someone else's.
    await new Promise((resolve) => setTimeout(resolve, STOPPED_MS));
    closeAbandoned(this.#descriptors);
  }
}

async function within(work: Promise<void>, ms: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => timer = setTimeout(resolve, ms));
  await Promise.race([work, late]);
  clearTimeout(timer);
}
