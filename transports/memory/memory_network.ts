/**
 * An in-process network for tests: whole frames between transports, on a clock of the test's choosing, with faults on
 * demand and from a seed. It keeps every promise of the transport contract, and breaks what a real network breaks.
 */
import type { Clock } from "../../src/clock.ts";
import type { MemoryLane } from "./memory_lane.ts";
import type { PipeSettings } from "./memory_pipe.ts";
import { type MemoryOptions, MemoryTransport } from "./memory_transport.ts";
import { type Random, seededRandom } from "./random.ts";

/** Options of a {@linkcode MemoryNetwork}. */
export interface MemoryNetworkOptions {
  clock: Clock;
  /** Default 1. */
  seed?: number;
  /** One way, ms. Default 0.1. */
  delayMs?: number;
  /** Up to so much more per burst, ms. Default 0. */
  jitterMs?: number;
  /** Frames and bytes that a lane's queue takes. Default 256 and 1 MiB. */
  queueFrames?: number;
  queueBytes?: number;
  /** Bytes on the way between sender and receiver. Default 256 KiB. */
  wireBytes?: number;
  /** How long dialling an unreachable node takes to fail, ms. Default 5000. */
  dialTimeoutMs?: number;
}

/** Which lanes a fault is about; what is left out matches all. */
export interface LaneFilter {
  from?: string;
  to?: string;
  lane?: number;
}

/** See the head of this file. */
export class MemoryNetwork {
  readonly clock: Clock;
  readonly delayMs: number;
  readonly dialTimeoutMs: number;
  readonly random: Random;
  readonly pipeSettings: PipeSettings;
  readonly #transports = new Map<string, MemoryTransport>();
  /** Pairs of names that cannot reach one another, both ways. */
  readonly #partitions = new Set<string>();
  #nextName = 1;

  constructor(options: MemoryNetworkOptions) {
    this.clock = options.clock;
    this.delayMs = options.delayMs ?? 0.1;
    this.dialTimeoutMs = options.dialTimeoutMs ?? 5_000;
    this.random = seededRandom(options.seed ?? 1);
    this.pipeSettings = {
      clock: options.clock,
      random: this.random,
      delayMs: this.delayMs,
      jitterMs: options.jitterMs ?? 0,
      queueFrames: options.queueFrames ?? 256,
      queueBytes: options.queueBytes ?? 1_048_576,
      wireBytes: options.wireBytes ?? 262_144,
    };
  }

  /** A transport on this network; it can be dialled once it has started. */
  transport(options: MemoryOptions = {}): MemoryTransport {
    return new MemoryTransport(this, options.name ?? `node-${this.#nextName++}`, options);
  }

  /**
   * Cuts connections. With `arriving` "some", a part chosen by the seed of what is on the wire still arrives; with
   * "none" (default) nothing does. What was admitted and does not arrive is lost. Returns how many were cut.
   */
  cut(filter: LaneFilter = {}, arriving: "none" | "some" = "none"): number {
    const lanes = this.#lanes(filter).filter((lane) => lane.isUp);
    for (const lane of lanes) {
      lane.cut("the connection was cut", (onWire) => {
        return arriving === "none" ? 0 : Math.floor(this.random() * (onWire + 1));
      });
    }
    return lanes.length;
  }

  /** The receivers of these lanes stop reading. */
  pause(filter: LaneFilter): void {
    for (const lane of this.#lanes(filter)) lane.setPaused(true);
  }

  /** The receivers of these lanes read again. */
  resume(filter: LaneFilter): void {
    for (const lane of this.#lanes(filter)) lane.setPaused(false);
  }

  /** Nothing gets through between two nodes: connections stand still, dialling fails after its timeout. */
  partition(a: string, b: string): void {
    this.#partitions.add(pairOf(a, b));
    this.#changed();
  }

  /** Ends a partition; without names all of them. */
  heal(a?: string, b?: string): void {
    if (a === undefined || b === undefined) this.#partitions.clear();
    else this.#partitions.delete(pairOf(a, b));
    this.#changed();
  }

  /** As if a process died: its connections are cut both ways and it can be dialled no more. */
  kill(name: string, arriving: "none" | "some" = "none"): void {
    const transport = this.#transports.get(name);
    transport?.abandon();
    this.cut({ to: name }, arriving);
    this.cut({ from: name }, arriving);
    this.#transports.delete(name);
  }

  /** Whether frames pass between two nodes. */
  isReachable(a: string, b: string): boolean {
    return !this.#partitions.has(pairOf(a, b));
  }

  /** The transport of that name, while it listens. */
  find(name: string): MemoryTransport | undefined {
    return this.#transports.get(name);
  }

  /** For transports: begins to listen. Throws when the name is taken. */
  attach(transport: MemoryTransport): void {
    if (this.#transports.has(transport.name)) {
      throw new Error(`Cannot listen as "${transport.name}": it is taken`);
    }
    this.#transports.set(transport.name, transport);
  }

  /** For transports: listens no more. */
  detach(transport: MemoryTransport): void {
    if (this.#transports.get(transport.name) === transport) this.#transports.delete(transport.name);
  }

  #lanes(filter: LaneFilter): MemoryLane[] {
    const found: MemoryLane[] = [];
    for (const transport of this.#transports.values()) {
      if (filter.from !== undefined && transport.name !== filter.from) continue;
      for (const lane of transport.openLanes()) {
        if (filter.to !== undefined && lane.targetName !== filter.to) continue;
        if (filter.lane === undefined || lane.index === filter.lane) found.push(lane);
      }
    }
    return found;
  }

  #changed(): void {
    for (const lane of this.#lanes({})) lane.onNetworkChanged();
  }
}

function pairOf(a: string, b: string): string {
  return a < b ? `${a}\n${b}` : `${b}\n${a}`;
}
