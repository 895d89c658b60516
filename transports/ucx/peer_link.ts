/**
 * The one lane to a peer: an admission gate in front of a bounded number of sends that UCX has not completed.
 *
 * `ucp_am_send_nbx` never refuses for want of room, so the bound is ours: a permit is the room in `outstanding`, taken
 * when a send does not complete at once and returned when it completes or fails. A peer that takes nothing fills its own
 * permits and then its own gate; no other peer notices.
 *
 * Each endpoint is an *epoch*. When it dies, what waits fails, the owner is told, and only then may a successor carry
 * anything.
 */
import { TokenplaneError } from "../../src/errors.ts";
import { AdmissionGate } from "../admission.ts";
import type { Admission, InstanceId, MessageType } from "../contract.ts";
import type { UcxAddress } from "./address_entry.ts";
import type { Endpoint, Endpoints } from "./endpoints.ts";
import { Kind } from "./kinds.ts";
import type { UcxSettings, UcxStats } from "./options.ts";
import type { Sender } from "./send.ts";
import { statusName, UcsStatus } from "./status.ts";

/** What all links of a transport share. */
export interface LinkContext {
  readonly settings: UcxSettings;
  readonly stats: UcxStats;
  readonly endpoints: Endpoints;
  readonly sender: Sender;
  /** Asks the progress loop for a turn. */
  kick(): void;
  /** An endpoint is gone and every pending admission has failed. */
  onLost(peer: InstanceId, reason: string): void;
}

interface WaitingFrame {
  readonly type: MessageType;
  readonly header: Uint8Array;
  readonly parts: readonly Uint8Array[];
  readonly payloadBytes: number;
}

const NO_PARTS: readonly Uint8Array[] = Object.freeze([]);

/** See the head of this file. */
export class PeerLink {
  readonly peer: InstanceId;
  readonly #context: LinkContext;
  readonly #gate: AdmissionGate<WaitingFrame>;
  #address: UcxAddress;
  #endpoint: Endpoint | null = null;
  /** Why no endpoint could be made; set until that has been told, and sends wait meanwhile. */
  #refusal: string | null = null;
  /** True while a dead endpoint is being told about: sends wait, none is made. */
  #isDying = false;
  #isClosed = false;

  constructor(context: LinkContext, peer: InstanceId, address: UcxAddress) {
    this.peer = peer;
    this.#context = context;
    this.#address = address;
    this.#gate = new AdmissionGate((frame) => this.#tryPush(frame), context.settings.onBug);
  }

  /** The address that the next endpoint goes to. */
  get address(): UcxAddress {
    return this.#address;
  }

  /** Whether an endpoint has been made and has not failed. */
  get isUp(): boolean {
    return this.#endpoint !== null;
  }

  /** Frames that wait for admission. */
  get waiting(): number {
    return this.#gate.waiting;
  }

  /** As `Transport.send`; sizes have been checked. */
  send(
    type: MessageType,
    header: Uint8Array,
    parts: readonly Uint8Array[],
    payloadBytes: number,
    admission: Admission | undefined,
  ): boolean {
    this.#connect();
    if (this.#gate.waiting === 0 && this.#push(type, header, parts, payloadBytes)) return true;
    this.#context.stats.backpressure++;
    const error = this.#cannotWait();
    if (error !== null) {
      if (admission !== undefined) queueMicrotask(() => admission(error));
      return false;
    }
    this.#gate.append({ type, header, parts, payloadBytes }, admission ?? null);
    return false;
  }

  /** Posts a probe, past the gate. Null, or why it cannot be sent. */
  ping(token: Uint8Array): TokenplaneError | null {
    this.#connect();
    const endpoint = this.#endpoint;
    if (endpoint === null) return this.#refusal === null ? closedError() : lostError(this.#refusal);
    const { sender, endpoints, kick } = this.#context;
    const status = sender.post(endpoint.handle, Kind.ping, token, NO_PARTS, 0, endpoint.sends);
    endpoints.watch(endpoint);
    kick();
    if (status === UcsStatus.ok) return null;
    endpoints.report(endpoint, status);
    return lostError(statusName(status));
  }

  /** Sends of `endpoint` have completed: admits what waits. */
  onPermits(endpoint: Endpoint): void {
    if (this.#endpoint === endpoint) this.#gate.pump();
  }

  /** The endpoint has failed. The caller closes it. */
  handleFailure(endpoint: Endpoint): void {
    if (this.#endpoint === endpoint) this.#die(statusName(endpoint.failure));
  }

  /** Another address from now on; the endpoint to the old one is dropped at the loop's next turn. */
  move(address: UcxAddress): void {
    this.#address = address;
    this.retire("the peer has moved");
  }

  /** Drops the endpoint, if any, as if it had failed; the next send makes a new one. */
  retire(reason: string): void {
    const endpoint = this.#endpoint;
    if (endpoint !== null) {
      // Not closed here: a reply endpoint that is in use further up the stack may be this one.
      this.#context.endpoints.report(endpoint, UcsStatus.canceled);
      this.#context.kick();
    }
    if (endpoint !== null || this.#refusal !== null) this.#die(reason);
  }

  /** Drops the endpoint for good. */
  close(reason: string): void {
    this.#isClosed = true;
    this.retire(reason);
    this.#gate.failAll(closedError());
  }

  /** Lets go of the endpoint, which the caller flushes and closes. */
  end(reason: string): void {
    this.#isClosed = true;
    if (this.#endpoint !== null || this.#refusal !== null) this.#die(reason);
    this.#gate.failAll(closedError());
  }

  /** Refuses further frames; what has been admitted or waits still goes out. */
  seal(): void {
    this.#isClosed = true;
  }

  /** Makes an endpoint where there is none and one may be made. */
  #connect(): void {
    if (this.#endpoint !== null || this.#refusal !== null || this.#isDying || this.#isClosed) return;
    const { endpoints, stats, settings } = this.#context;
    const made = endpoints.create(this.peer, this.#address.workerAddress);
    if (typeof made !== "number") {
      this.#endpoint = made;
      stats.endpointsCreated++;
      stats.connections++;
      return;
    }
    // Told later, as a connection that does not come up would be: this may be the middle of a send.
    const refusal = `no endpoint to peer "${this.peer}": ${statusName(made)}`;
    this.#refusal = refusal;
    settings.clock.defer(() => {
      if (this.#refusal === refusal) this.#die(refusal);
    });
  }

  #push(type: MessageType, header: Uint8Array, parts: readonly Uint8Array[], payloadBytes: number): boolean {
    const endpoint = this.#endpoint;
    if (endpoint === null || this.#isDying || endpoint.failure !== 0) return false;
    const { settings, sender, endpoints, stats, kick } = this.#context;
    const size = header.length + payloadBytes;
    const { sends } = endpoint;
    if (sends.count > 0) {
      const { maxFrames, maxBytes } = settings.outstanding;
      if (sends.count >= maxFrames || sends.bytes + size > maxBytes) return false;
    }
    const status = sender.post(endpoint.handle, type, header, parts, payloadBytes, sends);
    kick();
    if (status !== UcsStatus.ok) {
      // Not taken: the frame waits, and fails with all others when the loop drops the endpoint.
      endpoints.report(endpoint, status);
      return false;
    }
    if (sends.count > 0) endpoints.watch(endpoint);
    stats.framesOut[type]!++;
    stats.bytesOut[type]! += size;
    return true;
  }

  #tryPush(frame: WaitingFrame): boolean {
    return this.#push(frame.type, frame.header, frame.parts, frame.payloadBytes);
  }

  #cannotWait(): TokenplaneError | null {
    if (this.#isClosed && !this.#isDying) return closedError();
    const { maxWaiting } = this.#context.settings;
    if (this.#gate.waiting < maxWaiting) return null;
    return new TokenplaneError("overloaded", `Cannot send frame: ${maxWaiting} frames wait for the peer`);
  }

  #die(reason: string): void {
    const { stats, settings } = this.#context;
    if (this.#endpoint !== null) stats.connections--;
    this.#endpoint = null;
    this.#refusal = null;
    this.#isDying = true;
    stats.lanesLost++;
    this.#gate.failAll(lostError(reason));
    try {
      this.#context.onLost(this.peer, reason);
    } catch (caught) {
      settings.onBug(caught);
    }
    this.#isDying = false;
    if (this.#gate.waiting === 0) return;
    if (this.#isClosed) {
      this.#gate.failAll(closedError());
      return;
    }
    this.#connect();
    this.#gate.pump();
  }
}

function lostError(reason: string): TokenplaneError {
  return new TokenplaneError("connection", `Cannot send frame: ${reason}`);
}

function closedError(): TokenplaneError {
  return new TokenplaneError("connection", "Cannot send frame: the lane is closed");
}
