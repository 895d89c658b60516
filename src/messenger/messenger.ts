/** One node's messenger: named handlers, calls and one-way messages over whatever transports it is given. */
import {
  type Admission,
  type FrameSink,
  type InboundConnection,
  type InstanceId,
  MessageType,
  type Transport,
} from "../../transports/contract.ts";
import { type Clock, systemClock } from "../clock.ts";
import { TokenplaneError } from "../errors.ts";
import { type Logger, silentLogger } from "../observe/log.ts";
import { Calls } from "./calls.ts";
import { isExemptFromDrain } from "./drain_gate.ts";
import { decodeAck, decodeResponseIsError, REQUEST_ID_AT, ResponseType } from "./envelope.ts";
import { HandlerTable } from "./handlers.ts";
import { parseJson, stringifyJson } from "./json.ts";
import { type MessengerOptions, type MessengerStats, newMessengerStats } from "./messenger_options.ts";
import { OrderedLanes } from "./ordered_lanes.ts";
import { type CallRequest, Outbox } from "./outbox.ts";
import { encodeWorkerAddress, type PeerInfo } from "./peer_info.ts";
import { type PeerRecord, PeerTable } from "./peers.ts";
import { RequestRunner } from "./requests.ts";
import { StagingStore } from "./staging.ts";
import { StagingPuller } from "./staging_pull.ts";
import { helloTo, registerSystemHandlers } from "./system_handlers.ts";
import type {
  BytesHandler,
  JsonHandler,
  MessageOrigin,
  MessengerEvents,
  MessengerPort,
  OneWayHandler,
  RemotePeer,
} from "./types.ts";
import { newInstanceId, workerIdOf } from "./worker_id.ts";

const NO_PAYLOAD = new Uint8Array(0);
const PULL_TIMEOUT_MS = 30_000;
const HANDLERS_SHARE = 0.75;

/** Implements {@linkcode MessengerPort}. Make one, add handlers, then `start`. */
export class Messenger implements MessengerPort {
  readonly instanceId: InstanceId;
  readonly workerId: bigint;
  readonly stats: MessengerStats = newMessengerStats();
  readonly handlers = new HandlerTable();
  readonly lanes: OrderedLanes;
  readonly requests: RequestRunner;
  readonly outbox: Outbox;
  readonly #transports: readonly Transport[];
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #peers: PeerTable;
  readonly #puller: StagingPuller;
  readonly #helloTimeoutMs: number;
  readonly #listeners: Partial<MessengerEvents>[] = [];
  /** Temporary ids of calls by address: nobody above knows them. */
  readonly #bootstraps = new Set<InstanceId>();
  #peerInfo: PeerInfo | null = null;
  #isDraining = false;
  #shutdown: Promise<void> | null = null;

  /** Throws `invalid_config` without a transport, `invalid_request` for a bad instance id. */
  constructor(options: MessengerOptions) {
    if (options.transports.length === 0) {
      throw new TokenplaneError("invalid_config", "Cannot make messenger: it needs at least one transport");
    }
    this.#transports = options.transports;
    this.#clock = options.clock ?? systemClock;
    this.#log = options.log ?? silentLogger;
    this.#helloTimeoutMs = options.helloTimeoutMs ?? 30_000;
    this.instanceId = options.instanceId ?? newInstanceId();
    this.workerId = workerIdOf(this.instanceId);
    this.#peers = new PeerTable(options.transports, options.maxPeers ?? 4_096);
    this.#puller = new StagingPuller(options.pulling);
    const staging = new StagingStore(this.workerId, this.#clock, options.staging);
    this.outbox = new Outbox(
      new Calls(this.workerId, this.#clock),
      staging,
      options.stagingThreshold ?? 262_144,
    );
    const onDropped = (reason: string, caught?: unknown): void => this.#countDropped(reason, caught);
    const onHandlerFailed = (entry: { name: string }, caught: unknown): void => {
      this.#log.debug("handler_failed", { handler: entry.name, error: caught });
    };
    this.requests = new RequestRunner({
      clock: this.#clock,
      handlers: this.handlers,
      peers: this.#peers,
      maxInFlight: options.maxInFlight ?? 16_384,
      lanes: () => this.lanes,
      fetchStaged: (handle, origin) => this.#fetchStaged(handle, origin),
      onHandlerFailed,
      onDropped,
    });
    this.lanes = new OrderedLanes(this.handlers, this.#peers, {
      onRequest: (request, header, payload, lane) => this.requests.handle(request, header, payload, lane),
      onHandlerFailed,
      onDropped,
    });
    registerSystemHandlers(this, this.handlers, staging);
  }

  /** Starts the transports. Throws `invalid_config` when one cannot listen; those started before are stopped. */
  async start(): Promise<void> {
    const entries = new Map<string, Uint8Array>();
    try {
      for (const transport of this.#transports) {
        await transport.start(this.#newSink());
        entries.set(transport.key, transport.addressEntry());
      }
    } catch (caught) {
      await this.shutdown(0);
      throw caught;
    }
    this.#peerInfo = { instanceId: this.instanceId, workerAddress: encodeWorkerAddress(entries) };
  }

  get peerInfo(): PeerInfo {
    if (this.#peerInfo === null) {
      throw new TokenplaneError("closed", "Cannot tell address: the messenger is not started");
    }
    return this.#peerInfo;
  }

  /** Peers known now. */
  get peerCount(): number {
    return this.#peers.size;
  }

  lanesTo(peer: InstanceId): number {
    return this.#peers.get(peer)?.transport.lanes ?? 1;
  }

  registerPeer(info: PeerInfo): RemotePeer {
    return this.#peers.register(info);
  }

  unregisterPeer(peer: InstanceId): void {
    this.#peers.unregister(peer);
    this.outbox.calls.failLane(peer, null, new TokenplaneError("connection", "The peer was unregistered"));
    for (const listener of this.#listeners) listener.onPeerUnregistered?.(peer);
  }

  peer(peer: InstanceId): RemotePeer | undefined {
    return this.#peers.get(peer);
  }

  peerByWorkerId(workerId: bigint): RemotePeer | undefined {
    return this.#peers.byWorkerId(workerId);
  }

  handleOneWay(name: string, handler: OneWayHandler): void {
    this.handlers.add(name, { oneWay: handler });
  }

  handleJson(name: string, handler: JsonHandler): void {
    this.handlers.add(name, { json: handler });
  }

  handleBytes(name: string, handler: BytesHandler): void {
    this.handlers.add(name, { bytes: handler });
  }

  listen(events: Partial<MessengerEvents>): void {
    this.#listeners.push(events);
  }

  eagerBudget(peer: InstanceId, handler: string): number {
    const capacity = this.#peers.get(peer)?.transport.maxFrameBytes(peer) ?? Infinity;
    return Math.max(0, Math.min(capacity, this.outbox.stagingThreshold) - this.outbox.envelopeBytes(handler));
  }

  sendOneWay(
    peer: InstanceId,
    lane: number,
    handler: string,
    parts: readonly Uint8Array[],
    admission?: Admission,
  ): boolean {
    const record = this.#peers.get(peer);
    if (record !== undefined) return this.outbox.sendOneWay(record, lane, handler, parts, admission);
    queueMicrotask(() => admission?.(unknownPeer(peer)));
    return false;
  }

  sendJson(peer: InstanceId, handler: string, value: unknown): void {
    this.sendOneWay(peer, 0, handler, [stringifyJson(value)], (error) => {
      if (error !== null) this.#log.warn("message_not_sent", { peer, handler, error });
    });
  }

  async requestJson(peer: InstanceId, handler: string, value: unknown, timeoutMs: number): Promise<unknown> {
    return await this.#call(peer, handler, stringifyJson(value), ResponseType.unary, timeoutMs, parseJson);
  }

  requestAck(peer: InstanceId, handler: string, payload: Uint8Array, timeoutMs: number): Promise<void> {
    return this.#call(peer, handler, payload, ResponseType.ackNack, timeoutMs, nothing) as Promise<void>;
  }

  async requestBytes(
    peer: InstanceId,
    handler: string,
    payload: Uint8Array,
    timeoutMs: number,
  ): Promise<Uint8Array> {
    const decode = (answer: Uint8Array): Uint8Array => answer.slice();
    return await this.#call(peer, handler, payload, ResponseType.unary, timeoutMs, decode) as Uint8Array;
  }

  async requestJsonAt(address: string, handler: string, value: unknown, timeoutMs: number): Promise<unknown> {
    const transport = this.#transports.find((item) => item.key === "tcp") ?? this.#transports[0]!;
    const instanceId = newInstanceId();
    transport.register(instanceId, new TextEncoder().encode(`${transport.key}://${address}`));
    this.#bootstraps.add(instanceId);
    const responseType = ResponseType.unary;
    try {
      const request = { handler, payload: stringifyJson(value), responseType, timeoutMs, decode: parseJson };
      return await this.outbox.call({ instanceId, transport }, request);
    } finally {
      transport.unregister(instanceId);
      this.#bootstraps.delete(instanceId);
    }
  }

  beginDrain(): void {
    if (this.#isDraining) return;
    this.#isDraining = true;
    for (const transport of this.#transports) transport.beginDrain(isExemptFromDrain);
  }

  shutdown(deadlineMs: number): Promise<void> {
    this.#shutdown ??= this.#close(deadlineMs);
    return this.#shutdown;
  }

  #call(
    peer: InstanceId,
    handler: string,
    payload: Uint8Array,
    responseType: ResponseType,
    timeoutMs: number,
    decode: (payload: Uint8Array) => unknown,
  ): Promise<unknown> {
    const record = this.#peers.get(peer);
    if (record === undefined) return Promise.reject(unknownPeer(peer));
    const request = { handler, payload, responseType, timeoutMs, decode };
    // System handlers are there or not; for others a peer is asked once, and again only when the name is missing.
    if (!handler.startsWith("_")) return this.#callKnown(record, request);
    this.stats.directCalls++;
    return this.outbox.call(record, request);
  }

  async #callKnown(record: PeerRecord, request: CallRequest): Promise<unknown> {
    const { handler, timeoutMs } = request;
    const begun = this.#clock.now();
    await this.#requireHandler(record, handler, begun + timeoutMs);
    const left = Math.max(0, timeoutMs - (this.#clock.now() - begun));
    return await this.outbox.call(record, { ...request, timeoutMs: left });
  }

  async #requireHandler(record: PeerRecord, handler: string, end: number): Promise<void> {
    const asks = record.handlers === null ? 2 : 1;
    if (record.handlers?.has(handler) === true) this.stats.directCalls++;
    for (let i = 0; i < asks && record.handlers?.has(handler) !== true; i++) {
      await this.#hello(record, Math.min(end - this.#clock.now(), this.#helloTimeoutMs));
    }
    if (record.handlers?.has(handler) === true) return;
    const text = `Handler '${handler}' not found on instance ${record.instanceId}`;
    throw new TokenplaneError("handler_not_found", text);
  }

  async #hello(record: PeerRecord, timeoutMs: number): Promise<void> {
    const { handshakes } = this.stats;
    if (record.hello === null) {
      handshakes.attempts++;
      record.hello = helloTo(this, record.instanceId, timeoutMs).finally(() => {
        record.hello = null;
      });
      record.hello.then(() => handshakes.successes++, () => handshakes.errors++);
    }
    record.handlers = await record.hello;
  }

  #fetchStaged(handle: string, origin: MessageOrigin): Promise<Uint8Array> {
    const record = this.#peers.byWorkerId(origin.workerId);
    if (record === undefined) {
      return Promise.reject(
        new TokenplaneError("peer_unknown", "Cannot pull staged payload: the sender is unknown"),
      );
    }
    const peer = record.instanceId;
    const { stats } = this.outbox.staging;
    const begun = this.#clock.now();
    const fetched = this.#puller.fetch(handle, origin.workerId, {
      acquire: (input) => this.requestJson(peer, "_rv_acquire", input, PULL_TIMEOUT_MS),
      pull: (input) => this.requestBytes(peer, "_rv_pull", stringifyJson(input), PULL_TIMEOUT_MS),
      release: (input) => this.sendJson(peer, "_rv_release", input),
      detach: (input) => this.sendJson(peer, "_rv_detach", input),
    });
    const { get } = stats.operations;
    fetched.then((payload) => {
      stats.fetchedBytes += payload.length;
      get.observe(true, this.#clock.now() - begun);
    }, () => get.observe(false, this.#clock.now() - begun));
    return fetched;
  }

  #newSink(): FrameSink {
    return {
      onFrame: (from, type, header, payload) => this.#onFrame(from, type, header, payload),
      onReadEnd: () => {
        for (const listener of this.#listeners) listener.onReadEnd?.();
      },
      onInboundClosed: (from, reason) => {
        const lane = this.lanes.forget(from);
        if (lane === null) return;
        for (const listener of this.#listeners) listener.onConnectionClosed?.(lane.id, reason);
      },
      onLaneLost: (peer, lane, reason) => {
        this.outbox.calls.failLane(
          peer,
          lane,
          new TokenplaneError("connection", `The connection was lost: ${reason}`),
        );
        if (this.#bootstraps.has(peer)) return;
        for (const listener of this.#listeners) listener.onLaneLost?.(peer, lane, reason);
      },
      onShuttingDown: (_peer, header) => this.#onShuttingDown(header),
    };
  }

  #onFrame(from: InboundConnection, type: MessageType, header: Uint8Array, payload: Uint8Array): void {
    if (type === MessageType.message) return this.lanes.handle(from, header, payload);
    if (type === MessageType.shuttingDown) return this.#onShuttingDown(header);
    try {
      this.#onAnswer(type, header, payload);
    } catch (caught) {
      this.#countDropped(type === MessageType.response ? "response" : "ack", caught);
    }
  }

  #onAnswer(type: MessageType, header: Uint8Array, payload: Uint8Array): void {
    const { calls } = this.outbox;
    let isTaken: boolean;
    if (type === MessageType.response) {
      const isError = decodeResponseIsError(header);
      isTaken = isError ? calls.completeWithError(header, 0, payload) : calls.complete(header, 0, payload);
    } else {
      const { isEvent, isError } = decodeAck(header);
      if (isEvent || type === MessageType.event) return this.#countDropped("event");
      isTaken = isError ? calls.completeWithError(header, 1, payload) : calls.complete(header, 1, NO_PAYLOAD);
    }
    if (!isTaken) this.stats.lateAnswers++;
  }

  #onShuttingDown(header: Uint8Array): void {
    this.stats.refusedByPeer++;
    const error = new TokenplaneError("unavailable", "Request rejected: peer is shutting down");
    this.outbox.calls.refuse(header, REQUEST_ID_AT, error);
  }

  #countDropped(reason: string, caught?: unknown): void {
    this.stats.dispatchFailures[reason] = (this.stats.dispatchFailures[reason] ?? 0) + 1;
    this.#log.debug("message_dropped", { reason, error: caught });
  }

  async #close(deadlineMs: number): Promise<void> {
    const end = this.#clock.now() + deadlineMs;
    this.beginDrain();
    // A handler that hangs must not use up the time that writing the other answers out takes.
    await this.#idleWithin(HANDLERS_SHARE * deadlineMs);
    const left = Math.max(0, end - this.#clock.now());
    await Promise.all(this.#transports.map((transport) => transport.shutdown(left)));
    this.outbox.calls.failAll(new TokenplaneError("closed", "The messenger is closed"));
    this.outbox.staging.clear();
  }

  async #idleWithin(ms: number): Promise<void> {
    if (ms <= 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = this.#clock.setTimer(resolve, ms);
    void this.requests.idle().then(resolve);
    await promise;
    this.#clock.clearTimer(timer);
  }
}

function nothing(): void {}

function unknownPeer(peer: InstanceId): TokenplaneError {
  return new TokenplaneError("peer_unknown", `Cannot reach peer "${peer}": it is not registered`);
}
