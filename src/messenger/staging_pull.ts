/** The receiving side of staging: fetches a payload that its sender has kept. */
import { TokenplaneError } from "../errors.ts";
import { asRecord, toBigint } from "./staging.ts";

/** Bounds of a {@linkcode StagingPuller}, in bytes. */
export interface PullLimits {
  /** Largest payload. */
  maxPayloadBytes: number;
  /** All payloads being pulled at a time. */
  maxTotalBytes: number;
}

/** Default bounds: 64 MiB each, 256 MiB together. */
export const DEFAULT_PULL_LIMITS: Readonly<PullLimits> = Object.freeze({
  maxPayloadBytes: 67_108_864,
  maxTotalBytes: 268_435_456,
});

/** Calls to the node that holds the payload. */
export interface PullCalls {
  acquire(input: unknown): Promise<unknown>;
  pull(input: unknown): Promise<Uint8Array>;
  release(input: unknown): void;
  detach(input: unknown): void;
}

interface Transfer {
  readonly leaseId: bigint;
  readonly transferId: bigint;
  readonly totalBytes: number;
  readonly chunkBytes: number;
  readonly chunks: number;
}

/** More chunks than this are a way of making us ask for ever. */
const MAX_CHUNKS = 16_384;
const DECIMAL = /^\d{1,39}$/;

/** See the head of this file. */
export class StagingPuller {
  readonly #limits: PullLimits;
  #bytes = 0;

  constructor(limits: Partial<PullLimits> = {}) {
    this.#limits = { ...DEFAULT_PULL_LIMITS, ...limits };
  }

  /** Bytes of the payloads being pulled now. */
  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Fetches the payload that the header value `handle` names; its owner must be `ownerId`, the sender of the message.
   * Rejects with `protocol`, `too_large`, `overloaded`, or as the calls do.
   */
  async fetch(handle: string, ownerId: bigint, calls: PullCalls): Promise<Uint8Array> {
    const value = DECIMAL.test(handle) ? BigInt(handle) : -1n;
    const hi = value >> 64n;
    const lo = value & 0xffff_ffff_ffff_ffffn;
    if (value < 0n || hi !== ownerId) {
      throw new TokenplaneError("protocol", "Cannot pull staged payload: its handle is not the sender's");
    }
    const transfer = readTransfer(await calls.acquire({ handle: { hi, lo } }), this.#limits.maxPayloadBytes);
    if (this.#bytes + transfer.totalBytes > this.#limits.maxTotalBytes) {
      calls.detach({ handle: { hi, lo }, lease_id: transfer.leaseId });
      throw new TokenplaneError(
        "overloaded",
        `Cannot pull staged payload: ${this.#bytes} bytes are under way`,
      );
    }
    this.#bytes += transfer.totalBytes;
    try {
      const payload = await pullChunks(transfer, calls);
      calls.release({ handle: { hi, lo }, lease_id: transfer.leaseId });
      return payload;
    } catch (caught) {
      calls.detach({ handle: { hi, lo }, lease_id: transfer.leaseId });
      throw caught;
    } finally {
      this.#bytes -= transfer.totalBytes;
    }
  }
}

async function pullChunks(transfer: Transfer, calls: PullCalls): Promise<Uint8Array> {
  const payload = new Uint8Array(transfer.totalBytes);
  let at = 0;
  for (let index = 0; index < transfer.chunks; index++) {
    const chunk = await calls.pull({ transfer_id: transfer.transferId, chunk_index: index });
    const expected = Math.min(transfer.chunkBytes, transfer.totalBytes - at);
    if (chunk.length !== expected) {
      throw new TokenplaneError(
        "protocol",
        `Cannot take chunk of ${chunk.length} bytes: ${expected} were promised`,
      );
    }
    payload.set(chunk, at);
    at += chunk.length;
  }
  return payload;
}

function readTransfer(answer: unknown, maxPayloadBytes: number): Transfer {
  const ready = asRecord(asRecord(answer)["Ready"]);
  const leaseId = toBigint(ready["lease_id"]);
  const transferId = toBigint(ready["transfer_id"]);
  const [totalBytes, chunkBytes, chunks] = [ready["total_len"], ready["chunk_size"], ready["chunk_count"]]
    .map(toCount);
  if (
    leaseId === null || transferId === null || totalBytes === undefined || chunkBytes === undefined ||
    chunkBytes === 0 || chunks === undefined || chunks > MAX_CHUNKS ||
    chunks !== Math.ceil(totalBytes / chunkBytes)
  ) {
    throw new TokenplaneError("protocol", "Cannot pull staged payload: the answer to acquire makes no sense");
  }
  if (totalBytes > maxPayloadBytes) {
    throw new TokenplaneError(
      "too_large",
      `Cannot pull ${totalBytes} bytes: the limit is ${maxPayloadBytes}`,
    );
  }
  return { leaseId, transferId, totalBytes, chunkBytes, chunks };
}

function toCount(value: unknown): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
}
