/** The program's parts, joined by real sockets: one frontend and its workers in this process, over TCP lanes. */
import OpenAI from "openai";
import { systemClock } from "../../src/clock.ts";
import { FrontendNode } from "../../src/frontend/node.ts";
import type { FrontendOptions } from "../../src/frontend/options.ts";
import { OUTCOMES } from "../../src/outcome.ts";
import { Messenger } from "../../src/messenger/messenger.ts";
import type { MuxOptions } from "../../src/mux/options.ts";
import { MuxPlane } from "../../src/plane/mux_plane.ts";
import type { Engine } from "../../src/worker/engines/engine.ts";
import { MockEngine, type MockOptions } from "../../src/worker/engines/mock.ts";
import { OpenAiEngine } from "../../src/worker/engines/openai.ts";
import type { OpenAiOptions } from "../../src/worker/engines/openai_options.ts";
import { WorkerNode } from "../../src/worker/node.ts";
import { TcpTransport } from "../../transports/tcp/tcp_transport.ts";
import { until } from "./until.ts";

/** A node of the message network over TCP. */
export interface LiveNode {
  readonly transport: TcpTransport;
  readonly messenger: Messenger;
  readonly plane: MuxPlane;
}

/** One worker with all its parts. */
export interface LiveWorker {
  readonly node: LiveNode;
  readonly worker: WorkerNode;
  readonly engine: Engine;
}

/** See the head of this file. Disposing of it closes everything. */
export class LiveSystem implements AsyncDisposable {
  readonly node: LiveNode;
  readonly frontend: FrontendNode;
  readonly workers: LiveWorker[] = [];
  port = 0;
  readonly #mux: Partial<MuxOptions>;

  private constructor(frontend: Partial<FrontendOptions>, mux: Partial<MuxOptions>) {
    this.#mux = mux;
    this.node = newNode(mux);
    const { messenger, plane } = this.node;
    this.frontend = new FrontendNode({ messenger, plane, options: frontend });
  }

  /** Starts a frontend without workers. */
  static async start(
    frontend: Partial<FrontendOptions> = {},
    mux: Partial<MuxOptions> = {},
  ): Promise<LiveSystem> {
    const system = new LiveSystem(frontend, mux);
    await system.node.messenger.start();
    system.port = await system.frontend.start({ hostname: "127.0.0.1", port: 0 });
    return system;
  }

  get base(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The real client of the real API; it tries once. */
  client(): OpenAI {
    return new OpenAI({ baseURL: `${this.base}/v1`, apiKey: "unused", maxRetries: 0 });
  }

  /** A worker with a mock engine; it has joined when this resolves. */
  addMock(
    options: Partial<MockOptions> = {},
    models: readonly string[] = ["mock"],
    also: readonly LiveSystem[] = [],
  ): Promise<LiveWorker> {
    return this.add(
      () => new MockEngine({ clock: systemClock, ttftMs: 1, itlMs: 1, ...options }),
      models,
      also,
    );
  }

  /** A worker in front of an OpenAI-compatible server. */
  addOpenAi(
    url: string,
    options: Partial<OpenAiOptions> = {},
    models: readonly string[] = ["m"],
  ): Promise<LiveWorker> {
    return this.add(() => new OpenAiEngine({ clock: systemClock, url, ...options }), models);
  }

  /** A worker with any engine, of this system; it serves the frontends of `also` too. */
  async add(
    newEngine: () => Engine,
    models: readonly string[],
    also: readonly LiveSystem[] = [],
  ): Promise<LiveWorker> {
    const node = newNode(this.#mux);
    const engine = newEngine();
    const frontends = [this, ...also].map(({ node }) => node.transport.address);
    const worker = new WorkerNode({
      messenger: node.messenger,
      plane: node.plane,
      engine,
      clock: systemClock,
      frontends: frontends.map(({ hostname, port }) => `${hostname}:${port}`),
      models: models.map((id) => ({ id, created: 1_700_000_000, ownedBy: "test" })),
      maxRunning: 4_096,
    });
    this.workers.push({ node, worker, engine });
    await node.messenger.start();
    worker.start();
    const { instanceId } = node.messenger;
    const isJoined = () =>
      worker.status.frontends.every(({ joined }) => joined) &&
      this.frontend.table.worker(instanceId)?.state === "ready";
    await until(isJoined, "the worker to join");
    return this.workers.at(-1)!;
  }

  /** Posts to a route; JSON by default. */
  post(path: string, body: unknown, init: RequestInit = {}): Promise<Response> {
    return fetch(`${this.base}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      ...init,
    });
  }

  /** Outcomes counted so far by the frontend, those that are not zero. */
  outcomes(): Record<string, number> {
    const sums: Record<string, number> = {};
    for (const { stream, unary } of Object.values(this.frontend.stats.requests)) {
      for (const outcome of OUTCOMES) {
        const count = stream.outcomes[outcome] + unary.outcomes[outcome];
        if (count > 0) sums[outcome] = (sums[outcome] ?? 0) + count;
      }
    }
    return sums;
  }

  /** Gauges of frontend and workers that are not zero. */
  leftovers(): Record<string, number> {
    const gauges: Record<string, number> = {
      "frontend.live": this.frontend.stats.live,
      "frontend.queued": this.frontend.stats.queued,
    };
    for (const worker of this.frontend.table.workers()) {
      gauges["frontend.in_flight"] = (gauges["frontend.in_flight"] ?? 0) + worker.inFlight;
    }
    addMuxGauges(gauges, "frontend", this.node);
    this.workers.forEach(({ node, worker, engine }, index) => {
      gauges[`worker${index}.in_flight`] = worker.status.inFlight;
      gauges[`worker${index}.running`] = engine.running;
      addMuxGauges(gauges, `worker${index}`, node);
    });
    return Object.fromEntries(Object.entries(gauges).filter(([, value]) => value !== 0));
  }

  /** Waits until nothing runs anywhere; throws with what is left. */
  async quiet(ms = 5_000): Promise<void> {
    await until(() => Object.keys(this.leftovers()).length === 0, "everything to end", ms).catch((error) => {
      throw new Error(`Something is left: ${JSON.stringify(this.leftovers())}`, { cause: error });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { worker } of this.workers) await worker.close();
    await this.frontend.close();
    this.node.plane.close();
    await this.node.messenger.shutdown(1_000);
  }
}

/** Descriptors of this process that are sockets. */
export function openSockets(): number {
  let count = 0;
  for (const { name } of Deno.readDirSync("/proc/self/fd")) {
    try {
      if (Deno.readLinkSync(`/proc/self/fd/${name}`).startsWith("socket:")) count++;
    } catch {
      // Closed since it was listed.
    }
  }
  return count;
}

function newNode(mux: Partial<MuxOptions>): LiveNode {
  const transport = new TcpTransport({ lanes: mux.lanes ?? 4 });
  const messenger = new Messenger({ transports: [transport] });
  return { transport, messenger, plane: new MuxPlane(messenger, mux) };
}

function addMuxGauges(gauges: Record<string, number>, name: string, node: LiveNode): void {
  const { stats, mux } = node.plane;
  gauges[`${name}.anchors`] = stats.liveAnchors;
  gauges[`${name}.ingress`] = stats.liveIngressSlots;
  gauges[`${name}.egress`] = stats.liveEgressSlots;
  gauges[`${name}.held`] = stats.heldRecords;
  gauges[`${name}.withheld`] = stats.withheldRecords;
  gauges[`${name}.staged`] = stats.stagedRecords;
  gauges[`${name}.bytes`] = mux.bytesHeld;
  gauges[`${name}.reader_stalls`] = stats.readerStalls;
}
