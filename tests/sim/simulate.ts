/**
 * One random schedule over a net of muxes in virtual time, judged by `oracle.ts`. Everything follows from the seed, so
 * a failing schedule is replayed by its number: `deno task sim --seed N`.
 */
import type { TimerHandle } from "../../src/clock.ts";
import type { EgressStream } from "../../src/mux/egress_stream.ts";
import type { FlushPolicy, MuxOptions } from "../../src/mux/options.ts";
import { MuxNet, type NetNode } from "../support/mux_net.ts";
import { VirtualClock } from "../support/virtual_clock.ts";
import { checkBytes, checkWindows, isSettled, judge, judgeNode } from "./oracle.ts";
import { Rng } from "./rng.ts";
import { type ConsumerKind, type Finish, SimStream } from "./sim_stream.ts";
import { corrupt } from "./tamper.ts";

/** Settings of a simulation. */
export interface SimOptions {
  /** Steps of the schedule before everything is let run out. */
  readonly steps?: number;
}

/** What came of it. */
export interface SimResult {
  readonly seed: number;
  readonly failures: readonly string[];
  /** A digest of everything observable: equal for equal seeds. */
  readonly digest: number;
  readonly streams: number;
  readonly items: number;
  readonly setup: string;
}

const HOSTILE = "hostile";
/** Virtual time after which an untouched stream that only has to run out must have done so. */
const RUN_OUT_MS = 20_000;
/** Virtual time after which every stream must have ended, whatever happened to it. */
const SETTLE_MS = 60_000;

/** Runs one schedule. */
export function simulate(seed: number, options: SimOptions = {}): SimResult {
  return new Simulation(seed, options.steps ?? 120).run();
}

class Simulation {
  readonly #seed: number;
  readonly #steps: number;
  readonly #rng: Rng;
  readonly #clock = new VirtualClock();
  readonly #failures: string[] = [];
  readonly #streams: SimStream[] = [];
  readonly #net: MuxNet;
  readonly #base: Partial<MuxOptions>;
  readonly #hostile: boolean;
  readonly #maxItemBytes: number;
  /** Ends of stalls that are to come. */
  readonly #stalls: TimerHandle[] = [];
  /** Until when a fault may still reach streams between two nodes, by their ids. */
  readonly #faulty = new Map<string, number>();
  #killed = false;
  #nodes = 0;
  #digest = 0x811c_9dc5;

  constructor(seed: number, steps: number) {
    this.#seed = seed;
    this.#steps = steps;
    const rng = this.#rng = new Rng(seed);
    this.#maxItemBytes = rng.pick([40, 300, 3_000]);
    this.#net = new MuxNet(this.#clock, {
      delayMs: rng.pick([0.05, 1, 10]),
      depth: rng.pick([1, 2, 4, 256]),
      eagerBudget: rng.pick([120, 1_000, 262_109]),
    });
    const slotByteBudget = rng.pick([4_096, 65_536, 1_048_576]);
    this.#base = {
      lanes: rng.int(1, 4),
      initialCredit: rng.pick([1, 2, rng.int(1, 32), 32]),
      slotByteBudget,
      peerByteBudget: slotByteBudget * rng.pick([1, 2, 8]),
      heartbeatIntervalMs: 1_000,
      acceptTimeoutMs: 8_000,
      maxBatchBytes: rng.pick([29, 64, 300, 2_000, 61_440]),
      flush: flushPolicy(rng),
      asyncOpenAck: rng.chance(0.3),
      streamSetup: rng.chance(0.3) ? "attach" : "ticket",
      replyLingerMs: rng.pick([0, 1]),
      visitFloorMs: rng.pick([0, 2]),
    };
    for (let n = rng.int(2, 4); n > 0; n--) this.#addNode();
    this.#hostile = rng.chance(0.4);
    if (this.#hostile) {
      this.#net.add(HOSTILE, this.#base);
      corrupt(this.#net, rng, HOSTILE);
    }
  }

  run(): SimResult {
    try {
      for (let step = 0; step < this.#steps; step++) {
        for (let n = this.#rng.int(1, 4); n > 0; n--) this.#step();
        this.#clock.advance(this.#rng.pick([0, 0, 0.1, 1, 3, 20, this.#rng.chance(0.02) ? 3_000 : 2]));
        this.#check();
      }
      this.#runOut();
    } catch (error) {
      this.#fail(`threw ${error instanceof Error ? error.stack : error}`);
    }
    for (const s of this.#streams) {
      this.#note(`${s.id} ${s.sent} ${s.received} ${s.sender?.ended} ${s.ends.map((end) => end.kind)}`);
    }
    this.#note(String(this.#clock.now()));
    return {
      seed: this.#seed,
      failures: this.#failures,
      digest: this.#digest,
      streams: this.#streams.length,
      items: this.#streams.reduce((sum, stream) => sum + stream.received, 0),
      setup: JSON.stringify({ ...this.#base, hostile: this.#hostile, maxItemBytes: this.#maxItemBytes }),
    };
  }

  #step(): void {
    const rng = this.#rng;
    const roll = rng.int(0, 99);
    if (roll < 12) this.#openBetween(rng.pick(this.#nodesUp()), rng.pick(this.#nodesUp()), [0, 1, 30]);
    else if (roll < 14) this.#burst();
    else if (roll < 62) this.#withStream((stream) => this.#produce(stream));
    else if (roll < 76) this.#withStream((stream) => stream.anchor.resume());
    else if (roll < 80) this.#withStream((stream) => stream.end(stream.wantedFinish));
    else if (roll < 82) this.#withStream((stream) => this.#succeed(stream));
    else if (roll < 84) this.#withStream((stream) => stream.cancel());
    else if (roll < 86) this.#withStream((stream) => stream.anchor.pause());
    else if (roll < 92) this.#flushAll();
    else if (roll < 96) this.#stall();
    else if (roll < 98) this.#cut();
    else if (roll < 99 && rng.chance(0.5)) this.#restart();
  }

  #addNode(): void {
    this.#net.add(`node${this.#nodes++}`, this.#base);
  }

  #nodesUp(): NetNode[] {
    return [...this.#net.nodes.values()];
  }

  #withStream(act: (stream: SimStream) => void): void {
    const open = this.#streams.filter((stream) => !stream.over);
    if (open.length > 0) act(this.#rng.pick(open));
  }

  /** Many streams at once between two nodes, so that slots, batches and lanes fill up. */
  #burst(): void {
    const front = this.#rng.pick(this.#nodesUp());
    const worker = this.#rng.pick(this.#nodesUp());
    for (let n = this.#rng.int(3, 12); n > 0; n--) this.#openBetween(front, worker, null);
  }

  /** Ends a stream and opens the next one at once, which takes over its slot. */
  #succeed(stream: SimStream): void {
    stream.end(stream.wantedFinish);
    if (this.#alive(stream.front) && this.#alive(stream.worker)) {
      this.#openBetween(stream.front, stream.worker, null);
    }
  }

  /** A new stream, whose request takes one of `delays` in ms to reach the worker (null: it is there at once). */
  #openBetween(front: NetNode, worker: NetNode, delays: readonly number[] | null): void {
    const rng = this.#rng;
    if (front === worker) return;
    const hostile = front.id === HOSTILE || worker.id === HOSTILE;
    const kind = rng.pick<ConsumerKind>(["eager", "eager", "slow", "slow", "blocked", "throws"]);
    const limits = {
      throwAt: rng.int(1, 20),
      pauseEvery: rng.int(1, 10),
      cancelAt: rng.chance(0.1) ? rng.int(1, 30) : Infinity,
    };
    const stream = new SimStream(
      this.#streams.length,
      front,
      worker,
      hostile,
      (what) => this.#fail(what),
      kind,
      limits,
    );
    stream.quota = rng.pick([0, 1, 4, 40, 150]);
    stream.polite = rng.chance(0.85);
    stream.wantedFinish = rng.pick<Finish>(["finalized", "finalized", "finalized", "failed", "dropped"]);
    stream.anchor = front.mux.register(stream, worker.id);
    const pair = [front.id, worker.id].sort().join();
    stream.touched = this.#clock.now() <= (this.#faulty.get(pair) ?? -1);
    this.#streams.push(stream);
    if (delays === null) this.#openSender(stream);
    else if (rng.chance(0.9)) this.#clock.setTimer(() => this.#openSender(stream), rng.pick(delays));
  }

  #openSender(stream: SimStream): void {
    if (!this.#net.nodes.has(stream.worker.id)) return;
    const sender = stream.worker.mux.open(stream.front.id, stream.anchor.ticket) as EgressStream;
    stream.sender = sender;
    sender.onWritable = () => stream.pump(this.#rng.int(1, 8), this.#itemBytes);
    sender.onEnded = (why) => stream.senderEnds.push(why);
    if (sender.ended !== null) stream.senderEnds.push(sender.ended);
    stream.pump(this.#rng.int(0, 6), this.#itemBytes);
  }

  readonly #itemBytes = (): number =>
    this.#rng.chance(0.1) ? this.#rng.int(8, this.#maxItemBytes) : this.#rng.int(8, 60);

  #produce(stream: SimStream): void {
    const waits = stream.sender !== null && !stream.sender.writable && stream.polite && stream.sent > 0;
    if (!waits) stream.pump(this.#rng.int(1, 30), this.#itemBytes);
    if (stream.quota === 0 && this.#rng.chance(0.5)) stream.end(stream.wantedFinish);
  }

  #check(): void {
    checkWindows(this.#net, this.#streams);
    if (!this.#killed) checkBytes(this.#nodesUp(), this.#streams);
  }

  #flushAll(): void {
    for (const node of this.#nodesUp()) node.mux.flushBatch();
  }

  #stall(): void {
    const lanes = [...this.#net.lanes.values()];
    if (lanes.length === 0) return;
    const lane = this.#rng.pick(lanes);
    if (lane.stalled) return this.#net.stall(lane, false);
    this.#net.stall(lane, true);
    const ms = this.#rng.pick([2, 30, 300, 6_000]);
    // Silence of that length may fire watchdogs.
    if (ms > 500) this.#touch(lane.from.id, lane.to.id);
    this.#stalls.push(this.#clock.setTimer(() => this.#net.stall(lane, false), ms));
  }

  #cut(): void {
    const lanes = [...this.#net.lanes.values()];
    if (lanes.length === 0) return;
    const lane = this.#rng.pick(lanes);
    this.#touch(lane.from.id, lane.to.id);
    this.#net.cut(lane);
  }

  #restart(): void {
    const nodes = this.#nodesUp().filter((node) => node.id !== HOSTILE);
    if (nodes.length === 0) return;
    const { id } = this.#rng.pick(nodes);
    this.#kill(id);
    this.#addNode();
  }

  #kill(id: string): void {
    for (const stream of this.#streams) {
      if (stream.front.id === id || stream.worker.id === id) stream.touched = true;
    }
    this.#killed = true;
    this.#net.kill(id);
    for (const node of this.#nodesUp()) {
      // What a plane does once it is told that a peer has left.
      this.#clock.setTimer(() => node.mux.forgetPeer(id, "it left"), this.#rng.pick([1, 400]));
    }
  }

  /** A fault between two nodes may reach any stream between them that is under way. */
  #touch(a: string, b: string): void {
    for (const stream of this.#streams) {
      const ends = [stream.front.id, stream.worker.id];
      if (ends.includes(a) && ends.includes(b)) stream.touched = true;
    }
    // Both ends have to hear of it first, and what they then say has to arrive.
    this.#faulty.set([a, b].sort().join(), this.#clock.now() + 500);
  }

  /** Faults stop, consumers take everything, producers end: all that is left has to run out by itself. */
  #runOut(): void {
    for (const stall of this.#stalls) this.#clock.clearTimer(stall);
    for (const lane of this.#net.lanes.values()) this.#net.stall(lane, false);
    this.#clock.advance(50);
    for (const stream of this.#streams) {
      stream.draining = true;
      if (!stream.over) stream.anchor.resume();
      if (stream.sender !== null) stream.end(stream.wantedFinish);
    }
    const untouched = this.#streams.filter((s) => !s.touched && !s.hostile && s.sender !== null);
    this.#runUntil(RUN_OUT_MS, () => untouched.every((stream) => isSettled(stream, this.#alive)));
    for (const stream of untouched) {
      if (!isSettled(stream, this.#alive)) {
        stream.fail(
          `stalled: sent ${stream.sent}, received ${stream.received}, credit ${
            stream.sender!.credit
          }, withheld ` +
            `${stream.sender!.withheldRecords}, ended ${
              stream.sender!.ended
            }, slot ${stream.anchor.slot?.id}`,
        );
      }
    }
    if (this.#hostile) this.#kill(HOSTILE);
    this.#runUntil(SETTLE_MS, () => this.#streams.every((stream) => isSettled(stream, this.#alive)));
    // Grace periods, sweeps, replies: the last of what may still be pending.
    this.#runUntil(2_000, () => false);
    for (const stream of this.#streams) judge(stream, this.#alive);
    for (const node of this.#nodesUp()) judgeNode(node, (what) => this.#fail(what));
    if (this.#clock.pendingTimers > 0) this.#fail(`${this.#clock.pendingTimers} timers are left`);
  }

  #runUntil(limitMs: number, done: () => boolean): void {
    for (let ms = 0; ms < limitMs && !done(); ms += 10) {
      this.#flushAll();
      this.#clock.advance(10);
      if (ms % 100 === 0) this.#check();
    }
  }

  readonly #alive = (node: NetNode): boolean => this.#net.nodes.get(node.id) === node;

  #fail(what: string): void {
    if (this.#failures.length < 20) this.#failures.push(`t=${this.#clock.now().toFixed(2)} ${what}`);
  }

  /** FNV-1a over everything that is noted. */
  #note(text: string): void {
    for (let i = 0; i < text.length; i++) {
      this.#digest = Math.imul(this.#digest ^ text.charCodeAt(i), 0x0100_0193) >>> 0;
    }
  }
}

function flushPolicy(rng: Rng): FlushPolicy {
  return rng.pick<FlushPolicy>([
    { kind: "auto", onAdmission: true, maxLingerMs: null },
    { kind: "auto", onAdmission: false, maxLingerMs: 5 },
    { kind: "auto", onAdmission: true, maxLingerMs: 5 },
    { kind: "manual" },
  ]);
}
