import { assertEquals } from "@std/assert";
import { type FrameSink, MessageType } from "../../transports/contract.ts";
import { encodeFrame } from "../../transports/tcp/frame.ts";
import { Inbound } from "../../transports/tcp/inbound.ts";
import { ReadEnds } from "../../transports/tcp/read_ends.ts";
import type { Socket } from "../../transports/tcp/socket.ts";
import { newTcpStats } from "../../transports/tcp/tcp_stats.ts";
import { TurnBudget } from "../../transports/tcp/turn_budget.ts";
import { VirtualClock } from "../support/virtual_clock.ts";

const NONE = new Uint8Array(0);
const FRAME = encodeFrame(MessageType.event, NONE, new Uint8Array(100));

/** A connection whose other end is played by the test. */
class World {
  readonly clock = new VirtualClock(1_000);
  /** Frames that wait to be read. */
  waiting = 0;
  /** What the receiver needs for one read, ms. */
  workMs = 0;
  /** What another reader's bytes take while this one's read is answered, ms. */
  othersMs = 0;
  /** `caughtUpAt` as it was at the end of each read. */
  readonly seen: number[] = [];
  readonly inbound: Inbound;
  readonly #turns: TurnBudget;
  readonly #run: Promise<void>;
  #answer: PromiseWithResolvers<number | null> | null = null;
  #into: Uint8Array = NONE;

  constructor() {
    const socket: Socket = {
      read: (into) => this.#read(into),
      write: () => Promise.reject(new Error("Nothing is written")),
      closeWrite: () => Promise.resolve(),
      close: () => this.#answer?.resolve(null),
      setNoDelay() {},
      setKeepAlive() {},
      remoteAddr: { hostname: "127.0.0.1", port: 1 },
    };
    const sink: FrameSink = {
      onFrame() {},
      onReadEnd: () => {
        this.clock.advance(this.workMs);
        this.seen.push(this.inbound.caughtUpAt());
      },
      onInboundClosed() {},
      onLaneLost() {},
      onShuttingDown() {},
    };
    const now = () => this.clock.now();
    const turns = this.#turns = new TurnBudget(this.clock, Infinity);
    this.inbound = new Inbound(1, socket, {
      sink,
      stats: newTcpStats(),
      reader: {},
      refusals: { maxFrames: 1, maxBytes: 1 },
      now,
      turns,
      readEnds: new ReadEnds(() => sink.onReadEnd(), turns, now),
      onBug: (caught) => {
        throw caught;
      },
      exempt: null,
    });
    this.#run = this.inbound.run();
  }

  /** One more frame comes in. */
  async bring(): Promise<void> {
    if (this.#answer === null) this.waiting++;
    else {
      this.#into.set(FRAME);
      this.#answer.resolve(FRAME.length);
      this.#answer = null;
    }
    await this.settle();
  }

  /** Lets the reader go as far as it can. */
  settle(): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, 0));
  }

  async close(): Promise<void> {
    this.inbound.close("done");
    await this.#run;
  }

  #read(into: Uint8Array<ArrayBuffer>): Promise<number | null> {
    if (this.waiting > 0) {
      this.waiting--;
      into.set(FRAME);
      // The other one was answered first.
      void Promise.resolve().then(() => {
        this.clock.advance(this.othersMs);
        this.#turns.count(this.othersMs);
      });
      return Promise.resolve(FRAME.length);
    }
    this.#answer = Promise.withResolvers();
    this.#into = into;
    return this.#answer.promise;
  }
}

Deno.test("Inbound has caught up as long as it waits for bytes", async () => {
  const world = new World();
  await world.settle();
  world.clock.advance(5_000);
  assertEquals(world.inbound.caughtUpAt(), 6_000);
  await world.bring();
  // Nothing had been left unread when that read began.
  assertEquals(world.seen, [1_000]);
  world.clock.advance(10);
  assertEquals(world.inbound.caughtUpAt(), 6_010);
  await world.close();
});

Deno.test("Inbound has not caught up while reads are answered at once", async () => {
  const world = new World();
  await world.settle();
  world.clock.advance(500);
  world.workMs = 400;
  world.waiting = 20;
  await world.bring();
  assertEquals(world.seen, Array(21).fill(1_000));
  world.clock.advance(1);
  assertEquals(world.inbound.caughtUpAt(), world.clock.now());
  await world.close();
});

Deno.test("Inbound has not caught up when what it waited for was another reader's turn", async () => {
  const world = new World();
  await world.settle();
  world.clock.advance(500);
  world.othersMs = 5;
  world.waiting = 20;
  await world.bring();
  assertEquals(world.seen, Array(21).fill(1_000));
  world.clock.advance(1);
  assertEquals(world.inbound.caughtUpAt(), world.clock.now());
  await world.close();
});
