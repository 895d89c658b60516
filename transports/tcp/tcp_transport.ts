/** The TCP transport: lanes to peers, a listener, and the drain between them. */
import { TokenplaneError } from "../../src/errors.ts";
import { type Admission, type FrameSink, type InstanceId, MAX_FRAME_BYTES } from "../contract.ts";
import type { MessageType, Transport } from "../contract.ts";
import { countRejection, totalBytes } from "../stats.ts";
import { AcceptLoop } from "./accept_loop.ts";
import {
  advertisedEndpoints,
  decodeEndpoints,
  encodeEndpoints,
  type Endpoint,
  selectEndpoint,
} from "./endpoints.ts";
import { Inbound, type InboundContext } from "./inbound.ts";
import { Lane } from "./lane.ts";
import { ReadEnds } from "./read_ends.ts";
import { closeQuietly, type Socket, type SocketListener, tuneSocket } from "./socket.ts";
import { type TcpOptions, type TcpSettings, toTcpSettings } from "./tcp_options.ts";
import { newTcpStats, type TcpStats } from "./tcp_stats.ts";
import { TurnBudget } from "./turn_budget.ts";

/** Refusals that one inbound connection may leave unread. */
const REFUSAL_LIMITS = { maxFrames: 1_024, maxBytes: 1_048_576 };

interface Peer {
  entry: Uint8Array;
  endpoint: Endpoint;
  readonly lanes: (Lane | undefined)[];
}

interface Running {
  readonly sink: FrameSink;
  readonly accepting: AcceptLoop;
  readonly context: InboundContext;
  readonly address: { readonly hostname: string; readonly port: number };
}

/** Implements {@linkcode Transport} over TCP. */
export class TcpTransport implements Transport {
  readonly key = "tcp";
  readonly lanes: number;
  readonly stats: TcpStats = newTcpStats();
  readonly #settings: TcpSettings;
  readonly #peers = new Map<InstanceId, Peer>();
  readonly #inbound = new Map<Inbound, Promise<void>>();
  #nextInboundId = 1;
  #running: Running | null = null;
  #exempt: ((header: Uint8Array) => boolean) | null = null;
  #shutdown: Promise<void> | null = null;

  /** Throws `invalid_config` for an option out of range. */
  constructor(options: TcpOptions = {}) {
    this.#settings = toTcpSettings(options);
    this.lanes = this.#settings.lanes;
  }

  /** The address listened on. Only after `start`. */
  get address(): { readonly hostname: string; readonly port: number } {
    return this.#started().address;
  }

  // Listening takes no time, but the contract leaves other transports room for it.
  // deno-lint-ignore require-await
  async start(sink: FrameSink): Promise<void> {
    if (this.#running !== null || this.#shutdown !== null) {
      throw new TokenplaneError("closed", "Cannot start transport: it has been started before");
    }
    const { hostname, port, clock, sockets, reader, onBug, now } = this.#settings;
    let listener: SocketListener;
    try {
      listener = sockets.listen(hostname, port);
    } catch (caught) {
      const why = caught instanceof Error ? caught.message : String(caught);
      throw new TokenplaneError("invalid_config", `Cannot listen on ${hostname}:${port}: ${why}`, {
        scope: "process",
        cause: caught,
      });
    }
    const turns = new TurnBudget(clock);
    const onReadEnd = () => {
      try {
        sink.onReadEnd();
      } catch (caught) {
        onBug(caught);
      }
    };
    const context: InboundContext = {
      sink,
      stats: this.stats,
      reader,
      refusals: REFUSAL_LIMITS,
      now,
      turns,
      readEnds: new ReadEnds(onReadEnd, turns, now),
      onBug,
      exempt: this.#exempt,
    };
    const accepting = new AcceptLoop(listener, clock, {
      onAccepted: (socket) => this.#accept(socket, context),
      onAcceptFailed: () => {
        this.stats.acceptFailures++;
      },
    });
    this.#running = { sink, accepting, context, address: { hostname, port: listener.addr.port } };
  }

  addressEntry(): Uint8Array {
    const { hostname, port } = this.#started().address;
    return encodeEndpoints(
      advertisedEndpoints(this.#settings.advertiseHost ?? hostname, port, Deno.networkInterfaces),
    );
  }

  register(peer: InstanceId, entry: Uint8Array): void {
    const known = this.#peers.get(peer);
    if (known !== undefined && isSameBytes(known.entry, entry)) return;
    const endpoint = selectEndpoint(decodeEndpoints(entry), Deno.networkInterfaces);
    if (known === undefined) {
      this.#peers.set(peer, { entry: entry.slice(), endpoint, lanes: new Array(this.lanes).fill(undefined) });
      this.stats.peers = this.#peers.size;
      return;
    }
    known.entry = entry.slice();
    known.endpoint = endpoint;
    for (const lane of known.lanes) lane?.retire("the peer has moved");
  }

  unregister(peer: InstanceId): void {
    const known = this.#peers.get(peer);
    if (known === undefined) return;
    this.#peers.delete(peer);
    this.stats.peers = this.#peers.size;
    closeLanes(known, "the peer was unregistered");
  }

  maxFrameBytes(_peer: InstanceId): number {
    return MAX_FRAME_BYTES;
  }

  send(
    peer: InstanceId,
    lane: number,
    type: MessageType,
    header: Uint8Array,
    parts: readonly Uint8Array[],
    admission?: Admission,
  ): boolean {
    const payloadBytes = totalBytes(parts);
    const known = this.#peers.get(peer);
    const error = this.#refusal(peer, known, lane, header.length + payloadBytes);
    if (error !== null || known === undefined) {
      if (admission !== undefined) queueMicrotask(() => admission(error));
      return false;
    }
    const target = known.lanes[lane] ?? this.#openLane(peer, known, lane);
    return target.send(type, header, parts, payloadBytes, admission);
  }

  beginDrain(exempt: (header: Uint8Array) => boolean): void {
    this.#exempt = exempt;
    if (this.#running !== null) this.#running.context.exempt = exempt;
  }

  shutdown(deadlineMs: number): Promise<void> {
    this.#shutdown ??= this.#close(deadlineMs);
    return this.#shutdown;
  }

  async checkHealth(peer: InstanceId, timeoutMs: number): Promise<void> {
    const known = this.#peers.get(peer);
    if (known === undefined) throw unknownPeer(peer);
    if (known.lanes.some((lane) => lane?.isUp === true)) return;
    const { clock, sockets } = this.#settings;
    const { host, port } = known.endpoint;
    const abort = new AbortController();
    const timer = clock.setTimer(() => abort.abort(), timeoutMs);
    try {
      closeQuietly(await sockets.connect(host, port, abort.signal));
    } catch (caught) {
      const code = abort.signal.aborted ? "timeout" : "connection";
      throw new TokenplaneError(code, `Cannot reach peer "${peer}" at ${host}:${port}`, { cause: caught });
    } finally {
      clock.clearTimer(timer);
    }
  }

  /** Why a frame cannot even wait; null when it can be sent. */
  #refusal(peer: InstanceId, known: Peer | undefined, lane: number, bytes: number): TokenplaneError | null {
    let error: TokenplaneError;
    if (this.#shutdown !== null || this.#running === null) {
      error = new TokenplaneError("closed", "Cannot send frame: the transport is not running");
    } else if (known === undefined) {
      error = unknownPeer(peer);
    } else if (bytes > MAX_FRAME_BYTES) {
      error = new TokenplaneError(
        "too_large",
        `Cannot send frame of ${bytes} bytes: the limit is ${MAX_FRAME_BYTES}`,
      );
    } else if (!Number.isInteger(lane) || lane < 0 || lane >= this.lanes) {
      error = new TokenplaneError(
        "internal",
        `Cannot send on lane ${lane}: allowed are 0 to ${this.lanes - 1}`,
      );
    } else {
      return null;
    }
    countRejection(this.stats, error.code);
    return error;
  }

  #openLane(peer: InstanceId, known: Peer, index: number): Lane {
    const { sink } = this.#started();
    const lane = new Lane(this.#settings, this.stats, () => known.endpoint, {
      onLost: (reason) => sink.onLaneLost(peer, index, reason),
      onShuttingDown: (header) => sink.onShuttingDown(peer, header),
    });
    known.lanes[index] = lane;
    return lane;
  }

  #accept(socket: Socket, context: InboundContext): void {
    if (this.#inbound.size >= this.#settings.maxInbound) {
      countRejection(this.stats, "too_many_connections");
      closeQuietly(socket);
      return;
    }
    tuneSocket(socket);
    const inbound = new Inbound(this.#nextInboundId++, socket, context);
    this.stats.connections++;
    const run = inbound.run().then(() => {
      this.stats.connections--;
      this.#inbound.delete(inbound);
    });
    this.#inbound.set(inbound, run);
  }

  /** Stops accepting, writes out, hangs up in a way that lets peers read to the end, then closes the rest. */
  async #close(deadlineMs: number): Promise<void> {
    const running = this.#running;
    if (running === null) return;
    await running.accepting.close();
    const lanes = [...this.#peers.values()].flatMap((peer) => peer.lanes).filter((lane) =>
      lane !== undefined
    );
    await this.#within(deadlineMs, Promise.all(lanes.map((lane) => lane.drain().then(() => lane.finish()))));
    const ends = lanes.map((lane) => lane.close("the transport shuts down"));
    for (const inbound of this.#inbound.keys()) inbound.close("the transport shuts down");
    await Promise.all([...ends, ...this.#inbound.values()]);
    this.#peers.clear();
    this.stats.peers = 0;
  }

  /** Waits for `work`, but no longer than `ms`. */
  async #within(ms: number, work: Promise<unknown>): Promise<void> {
    const { clock } = this.#settings;
    await new Promise<void>((resolve) => {
      const timer = clock.setTimer(resolve, ms);
      work.finally(() => {
        clock.clearTimer(timer);
        resolve();
      });
    });
  }

  #started(): Running {
    if (this.#running === null) {
      throw new TokenplaneError("closed", "Cannot use transport: it has not been started");
    }
    return this.#running;
  }
}

function closeLanes(peer: Peer, reason: string): void {
  for (const lane of peer.lanes) void lane?.close(reason);
}

function unknownPeer(peer: InstanceId): TokenplaneError {
  return new TokenplaneError("peer_unknown", `Cannot reach peer "${peer}": it is not registered`);
}

function isSameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}
