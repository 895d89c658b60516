/** The UCX transport: active messages over libucp, on the isolate that owns the streams. */
import { TokenplaneError } from "../../src/errors.ts";
import { type Admission, type FrameSink, type InstanceId, MessageType, type Transport } from "../contract.ts";
import { countRejection, totalBytes } from "../stats.ts";
import { decodeAddressEntry, encodeAddressEntry, type UcxAddress } from "./address_entry.ts";
import type { Endpoint } from "./endpoints.ts";
import { Kind } from "./kinds.ts";
import { Liveness } from "./liveness.ts";
import { newUcxStats, toUcxSettings, type UcxOptions, type UcxSettings, type UcxStats } from "./options.ts";
import { type LinkContext, PeerLink } from "./peer_link.ts";
import { Pings } from "./ping.ts";
import { UcxRuntime } from "./runtime.ts";
import { statusName } from "./status.ts";

interface Running {
  readonly sink: FrameSink;
  readonly runtime: UcxRuntime;
  readonly context: LinkContext;
  readonly liveness: Liveness;
  readonly entry: Uint8Array;
}

/** Implements {@linkcode Transport} over UCX. One lane per peer. */
export class UcxTransport implements Transport {
  readonly key = "ucx";
  readonly lanes = 1;
  readonly stats: UcxStats = newUcxStats();
  readonly #settings: UcxSettings;
  readonly #links = new Map<InstanceId, PeerLink>();
  readonly #pings: Pings;
  readonly #onPermits = (endpoint: Endpoint) => this.#links.get(endpoint.peer)?.onPermits(endpoint);
  readonly #receive = (kind: number, reply: bigint, header: Uint8Array, payload: Uint8Array) =>
    this.#handleMessage(kind, reply, header, payload);
  #running: Running | null = null;
  /** Frames have been handed on since the last `onReadEnd`. */
  #hasRead = false;
  #exempt: ((header: Uint8Array) => boolean) | null = null;
  #shutdown: Promise<void> | null = null;

  /** Throws `invalid_config` for an option out of range. */
  constructor(options: UcxOptions = {}) {
    this.#settings = toUcxSettings(options);
    this.#pings = new Pings(this.#settings.clock);
  }

  /** What native code holds, for tests and metrics; null when not running. */
  get runtime(): UcxRuntime | null {
    return this.#running?.runtime ?? null;
  }

  // Loading takes no time that could be waited for, but the contract leaves other transports room for it.
  // deno-lint-ignore require-await
  async start(sink: FrameSink): Promise<void> {
    if (this.#running !== null || this.#shutdown !== null) {
      throw new TokenplaneError("closed", "Cannot start transport: it has been started before");
    }
    const runtime = new UcxRuntime(this.#settings, this.stats, sink, {
      afterProgress: () => this.#deliver(),
      settle: () => this.#settle(),
      onGone: (endpoint) =>
        this.#tell(() => this.runtime?.inbound.handleGone(endpoint.handle, statusName(endpoint.failure))),
      onDrop: (reason) => countRejection(this.stats, reason),
      onMisbehaved: (peer) => this.#links.get(peer)?.retire("the peer broke the rules"),
    });
    const context: LinkContext = {
      settings: this.#settings,
      stats: this.stats,
      endpoints: runtime.endpoints,
      sender: runtime.sender,
      kick: () => runtime.loop.kick(),
      onLost: (peer, reason) => sink.onLaneLost(peer, 0, reason),
    };
    const entry = encodeAddressEntry({
      eagerMax: this.#settings.eagerMax,
      incarnation: crypto.getRandomValues(new BigUint64Array(1))[0]!,
      workerAddress: runtime.worker.address,
    });
    const liveness = new Liveness(
      runtime.endpoints,
      this.#settings.clock,
      this.#settings,
      (endpoint) => this.#probe(endpoint),
      () => runtime.loop.kick(),
    );
    liveness.start();
    this.#running = { sink, runtime, context, liveness, entry };
  }

  addressEntry(): Uint8Array {
    return this.#started().entry;
  }

  register(peer: InstanceId, entry: Uint8Array): void {
    const address = decodeAddressEntry(entry);
    const known = this.#links.get(peer);
    if (known === undefined) {
      this.#links.set(peer, new PeerLink(this.#started().context, peer, address));
      this.stats.peers = this.#links.size;
    } else if (!isSameAddress(known.address, address)) {
      known.move(address);
    }
  }

  unregister(peer: InstanceId): void {
    const known = this.#links.get(peer);
    if (known === undefined) return;
    this.#links.delete(peer);
    this.stats.peers = this.#links.size;
    const reason = "the peer was unregistered";
    known.close(reason);
    this.#pings.fail(peer, new TokenplaneError("connection", `Cannot reach peer "${peer}": ${reason}`));
  }

  maxFrameBytes(peer: InstanceId): number {
    const own = this.#settings.eagerMax;
    return Math.min(own, this.#links.get(peer)?.address.eagerMax ?? own);
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
    const link = this.#links.get(peer);
    const error = this.#refusal(peer, link, lane, header.length, payloadBytes);
    if (error !== null || link === undefined) {
      if (admission !== undefined) queueMicrotask(() => admission(error));
      return false;
    }
    return link.send(type, header, parts, payloadBytes, admission);
  }

  beginDrain(exempt: (header: Uint8Array) => boolean): void {
    this.#exempt = exempt;
  }

  shutdown(deadlineMs: number): Promise<void> {
    this.#shutdown ??= this.#close(deadlineMs);
    return this.#shutdown;
  }

  async checkHealth(peer: InstanceId, timeoutMs: number): Promise<void> {
    const link = this.#links.get(peer);
    if (link === undefined) throw unknownPeer(peer);
    const { token, answer } = this.#pings.begin(peer, timeoutMs);
    const error = link.ping(token);
    if (error !== null) {
      this.#pings.fail(
        peer,
        new TokenplaneError("connection", `Cannot reach peer "${peer}"`, { cause: error }),
      );
    }
    await answer;
  }

  /** Why a frame cannot even wait; null when it can be sent. */
  #refusal(
    peer: InstanceId,
    link: PeerLink | undefined,
    lane: number,
    headerBytes: number,
    payloadBytes: number,
  ): TokenplaneError | null {
    let error: TokenplaneError;
    const running = this.#running;
    const limit = this.maxFrameBytes(peer);
    if (running === null || this.#shutdown !== null) {
      error = new TokenplaneError("closed", "Cannot send frame: the transport is not running");
    } else if (link === undefined) {
      error = unknownPeer(peer);
    } else if (headerBytes > running.runtime.worker.maxHeaderBytes) {
      error = new TokenplaneError(
        "too_large",
        `Cannot send frame with a header of ${headerBytes} bytes: the limit is ${running.runtime.worker.maxHeaderBytes}`,
      );
    } else if (headerBytes + payloadBytes > limit) {
      error = new TokenplaneError(
        "too_large",
        `Cannot send frame of ${headerBytes + payloadBytes} bytes: the limit is ${limit}`,
      );
    } else if (lane !== 0) {
      error = new TokenplaneError("internal", `Cannot send on lane ${lane}: allowed is 0`);
    } else {
      return null;
    }
    countRejection(this.stats, error.code);
    return error;
  }

  /** Hands on what progress brought. Returns whether there was anything. */
  #deliver(): boolean {
    return this.#running !== null && this.#running.runtime.receiver.deliver(this.#receive) > 0;
  }

  /** End of a turn. */
  #settle(): boolean {
    const running = this.#running;
    if (running === null) return false;
    const { endpoints, replies } = running.runtime;
    let active = endpoints.reap(this.#onPermits);
    if (replies.reap()) active = true;
    if (this.#hasRead) {
      this.#hasRead = false;
      this.#tell(() => running.sink.onReadEnd());
    }
    for (const endpoint of endpoints.takeReported()) {
      active = true;
      const reason = statusName(endpoint.failure);
      this.#links.get(endpoint.peer)?.handleFailure(endpoint);
      this.#pings.fail(
        endpoint.peer,
        new TokenplaneError("connection", `Cannot reach peer "${endpoint.peer}": ${reason}`),
      );
      endpoints.drop(endpoint);
    }
    return endpoints.settleClosing() || active;
  }

  #handleMessage(kind: number, reply: bigint, header: Uint8Array, payload: Uint8Array): void {
    const { sink, runtime } = this.#started();
    const from = runtime.inbound.of(reply);
    from.endpoint?.hear();
    if (from.isClosed) {
      countRejection(this.stats, "closed");
    } else if (kind === Kind.ping) {
      if (header.length > 0 && header.length <= 8) this.#answer(reply, Kind.pong, header);
    } else if (kind === Kind.pong) {
      this.#pings.handlePong(header);
    } else if (kind === MessageType.shuttingDown) {
      this.stats.framesIn[kind]!++;
      this.stats.bytesIn[kind]! += header.length;
      this.#tell(() => sink.onShuttingDown(from.endpoint?.peer ?? "", header));
    } else {
      const type = kind as MessageType;
      if (type === MessageType.message && this.#exempt !== null && !this.#exempt(header)) {
        countRejection(this.stats, "drain_rejected");
        this.#answer(reply, MessageType.shuttingDown, header);
        return;
      }
      this.stats.framesIn[type]!++;
      this.stats.bytesIn[type]! += header.length + payload.length;
      this.#hasRead = true;
      this.#tell(() => sink.onFrame(from, type, header, payload));
    }
  }

  #answer(reply: bigint, kind: number, header: Uint8Array): void {
    if (reply !== 0n && this.#started().runtime.replies.send(reply, kind, header)) return;
    this.stats.repliesDropped++;
  }

  /** Nobody waits for this answer: that something comes from the peer is enough. */
  #probe(endpoint: Endpoint): void {
    const token = crypto.getRandomValues(new Uint8Array(8));
    this.#links.get(endpoint.peer)?.ping(token);
  }

  /** Writes out what is admitted or waits, then takes everything down. */
  async #close(deadlineMs: number): Promise<void> {
    const running = this.#running;
    if (running === null) return;
    const { runtime } = running;
    for (const link of this.#links.values()) link.seal();
    await runtime.until(() => runtime.sender.outstanding === 0 && this.#noneWait(), deadlineMs);
    running.liveness.stop();
    const reason = "the transport shuts down";
    this.#pings.fail(null, new TokenplaneError("closed", `Cannot reach peer: ${reason}`));
    for (const link of this.#links.values()) link.end(reason);
    const isDestroyed = await runtime.close();
    if (!isDestroyed) this.stats.leakedWorkers++;
    this.#tell(() => runtime.inbound.closeAll(reason));
    this.#running = null;
    this.#links.clear();
    this.stats.peers = 0;
  }

  #noneWait(): boolean {
    for (const link of this.#links.values()) if (link.waiting > 0) return false;
    return true;
  }

  #tell(event: () => void): void {
    try {
      event();
    } catch (caught) {
      this.#settings.onBug(caught);
    }
  }

  #started(): Running {
    if (this.#running === null) {
      throw new TokenplaneError("closed", "Cannot use transport: it has not been started");
    }
    return this.#running;
  }
}

function unknownPeer(peer: InstanceId): TokenplaneError {
  return new TokenplaneError("peer_unknown", `Cannot reach peer "${peer}": it is not registered`);
}

function isSameAddress(a: UcxAddress, b: UcxAddress): boolean {
  if (a.incarnation !== b.incarnation || a.workerAddress.length !== b.workerAddress.length) return false;
  return a.workerAddress.every((byte, index) => byte === b.workerAddress[index]);
}
