/**
 * Payloads too large for one message: kept here until the peer has pulled them.
 *
 * The message goes out empty, with a header `_rv` that names the payload: `(worker id << 64) | local id`, decimal.
 * The peer calls `_rv_acquire`, then `_rv_pull` per chunk, then sends `_rv_release` (or `_rv_detach` to give up).
 * Room is bounded, and what nobody pulls is forgotten.
 */
import type { Admission } from "../../transports/contract.ts";
import type { Clock, TimerHandle } from "../clock.ts";
import { TokenplaneError } from "../errors.ts";
import { doublingBounds, OperationStats } from "../observe/histogram.ts";

/** Bounds of a {@linkcode StagingStore}. */
export interface StagingLimits {
  /** Bytes of all staged payloads together. */
  maxBytes: number;
  maxEntries: number;
  /** A payload that is not touched for so long is forgotten, ms. */
  expireMs: number;
}

/** Default bounds: 256 MiB, 4096 payloads, one minute. */
export const DEFAULT_STAGING_LIMITS: Readonly<StagingLimits> = Object.freeze({
  maxBytes: 268_435_456,
  maxEntries: 4_096,
  expireMs: 60_000,
});

/** Bytes of one chunk. */
export const STAGING_CHUNK_BYTES = 524_288;

const OPERATION_BOUNDS = doublingBounds(0.0005, 20);

/** What a node stages for others and fetches from them; plain numbers, read at scrape. */
export class StagingStats {
  /** A payload is staged, fetched from its owner, given up by whoever fetched it, or given back. */
  readonly operations: Record<"register" | "get" | "detach" | "release", OperationStats> = {
    register: new OperationStats(OPERATION_BOUNDS),
    get: new OperationStats(OPERATION_BOUNDS),
    detach: new OperationStats(OPERATION_BOUNDS),
    release: new OperationStats(OPERATION_BOUNDS),
  };
  registeredBytes = 0;
  fetchedBytes = 0;
}

interface Staged {
  readonly id: bigint;
  readonly bytes: Uint8Array;
  readonly onTaken: Admission | null;
  touched: number;
}

/** See the head of this file. */
export class StagingStore {
  readonly stats: StagingStats = new StagingStats();
  readonly #workerId: bigint;
  readonly #clock: Clock;
  readonly #limits: StagingLimits;
  /** In order of the last touch: the first expires first. */
  readonly #entries = new Map<bigint, Staged>();
  readonly #transfers = new Map<bigint, Staged>();
  #bytes = 0;
  #nextId = 1n;
  #nextTransfer = 1n;
  #timer: TimerHandle = null;
  /** Payloads that nobody pulled in time. */
  expired = 0;

  constructor(workerId: bigint, clock: Clock, limits: Partial<StagingLimits> = {}) {
    this.#workerId = workerId;
    this.#clock = clock;
    this.#limits = { ...DEFAULT_STAGING_LIMITS, ...limits };
  }

  get size(): number {
    return this.#entries.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Copies a payload in; returns the value of the `_rv` header. Throws `overloaded` when there is no room. `onTaken` is
   * called when the peer has it all, or with `timeout` or `closed` when it never will; not after `unstage`.
   */
  stage(parts: readonly Uint8Array[], totalBytes: number, onTaken: Admission | null = null): string {
    const { maxBytes, maxEntries } = this.#limits;
    const { register } = this.stats.operations;
    if (this.#bytes + totalBytes > maxBytes || this.#entries.size >= maxEntries) {
      register.observe(false);
      throw new TokenplaneError(
        "overloaded",
        `Cannot stage ${totalBytes} bytes: ${this.#bytes} of ${maxBytes} bytes are staged already`,
      );
    }
    const bytes = new Uint8Array(totalBytes);
    let at = 0;
    for (const part of parts) {
      bytes.set(part, at);
      at += part.length;
    }
    const staged: Staged = { id: this.#nextId++, bytes, onTaken, touched: this.#clock.now() };
    this.#entries.set(staged.id, staged);
    this.#bytes += totalBytes;
    this.stats.registeredBytes += totalBytes;
    register.observe(true);
    this.#arm();
    return ((this.#workerId << 64n) | staged.id).toString();
  }

  /** Forgets what {@linkcode StagingStore.stage} returned: its message never left. False: it was gone already. */
  unstage(handle: string): boolean {
    return this.#drop(BigInt(handle) & 0xffff_ffff_ffff_ffffn) !== null;
  }

  /** Answers `_rv_acquire`. Throws `invalid_request` for a handle that is not (or no longer) here. */
  acquire(input: unknown): unknown {
    const staged = this.#find(input);
    const transferId = this.#nextTransfer++;
    // One transfer per payload: a second acquire would only let a peer fill the table.
    for (const [id, other] of this.#transfers) if (other === staged) this.#transfers.delete(id);
    this.#transfers.set(transferId, staged);
    this.#touch(staged);
    return {
      Ready: {
        lease_id: transferId,
        transfer_id: transferId,
        total_len: staged.bytes.length,
        chunk_size: STAGING_CHUNK_BYTES,
        chunk_count: Math.ceil(staged.bytes.length / STAGING_CHUNK_BYTES),
      },
    };
  }

  /** Answers `_rv_pull` with a view of one chunk. Throws `invalid_request`. */
  pull(input: unknown): Uint8Array {
    const { transfer_id: transferId, chunk_index: index } = asRecord(input);
    const staged = this.#transfers.get(toBigint(transferId) ?? -1n);
    if (staged === undefined) throw new TokenplaneError("invalid_request", "Cannot pull: unknown transfer");
    const count = Math.ceil(staged.bytes.length / STAGING_CHUNK_BYTES);
    if (typeof index !== "number" || !Number.isInteger(index) || index < 0 || index >= count) {
      throw new TokenplaneError("invalid_request", `Cannot pull chunk: allowed are 0 to ${count - 1}`);
    }
    this.#touch(staged);
    return staged.bytes.subarray(index * STAGING_CHUNK_BYTES, (index + 1) * STAGING_CHUNK_BYTES);
  }

  /** Answers `_rv_release`: the peer has it all. What is not here is ignored. */
  release(input: unknown): void {
    const id = this.#localId(input);
    const dropped = id === null ? null : this.#drop(id);
    this.stats.operations.release.observe(dropped !== null);
    dropped?.onTaken?.(null);
  }

  /** Answers `_rv_detach`: the peer gave up this transfer and may try again. */
  detach(input: unknown): void {
    const lease = toBigint(asRecord(input)["lease_id"]);
    this.stats.operations.detach.observe(lease !== null && this.#transfers.delete(lease));
  }

  /** Forgets everything and stops the timer. */
  clear(): void {
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    this.#transfers.clear();
    this.#bytes = 0;
    this.#clock.clearTimer(this.#timer);
    this.#timer = null;
    const error = new TokenplaneError("closed", "Cannot send message: the messenger is closed");
    for (const { onTaken } of entries) onTaken?.(error);
  }

  #find(input: unknown): Staged {
    const id = this.#localId(input);
    const staged = id === null ? undefined : this.#entries.get(id);
    if (staged === undefined) {
      throw new TokenplaneError("invalid_request", "Cannot acquire: nothing is staged there");
    }
    return staged;
  }

  #localId(input: unknown): bigint | null {
    const handle = asRecord(asRecord(input)["handle"]);
    return toBigint(handle["hi"]) === this.#workerId ? toBigint(handle["lo"]) : null;
  }

  #touch(staged: Staged): void {
    staged.touched = this.#clock.now();
    this.#entries.delete(staged.id);
    this.#entries.set(staged.id, staged);
  }

  #drop(id: bigint): Staged | null {
    const staged = this.#entries.get(id);
    if (staged === undefined) return null;
    this.#entries.delete(id);
    this.#bytes -= staged.bytes.length;
    for (const [transfer, other] of this.#transfers) if (other === staged) this.#transfers.delete(transfer);
    if (this.#entries.size === 0) {
      this.#clock.clearTimer(this.#timer);
      this.#timer = null;
    }
    return staged;
  }

  #arm(): void {
    if (this.#timer !== null) return;
    const first = this.#entries.values().next().value;
    if (first === undefined) return;
    const wait = Math.max(1, first.touched + this.#limits.expireMs - this.#clock.now());
    this.#timer = this.#clock.setTimer(() => {
      this.#timer = null;
      this.#sweep();
      this.#arm();
    }, wait);
  }

  #sweep(): void {
    const latest = this.#clock.now() - this.#limits.expireMs;
    for (const staged of this.#entries.values()) {
      if (staged.touched > latest) return;
      this.expired++;
      this.#drop(staged.id);
      const text = `Cannot send message: the peer did not pull its ${staged.bytes.length} bytes in time`;
      staged.onTaken?.(new TokenplaneError("timeout", text));
    }
  }
}

/** A field of JSON as u64; null when it is none. */
export function toBigint(value: unknown): bigint | null {
  if (typeof value === "bigint") return value;
  return typeof value === "number" && Number.isSafeInteger(value) ? BigInt(value) : null;
}

/** A JSON object's fields; none for anything else. */
export function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? value as Record<string, unknown> : {};
}
