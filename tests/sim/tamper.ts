/** What a hostile node makes of its own batches on their way out. */
import type { MuxNet, NetLane } from "../support/mux_net.ts";
import { RecordBuffer } from "../../src/mux/wire/record_buffer.ts";
import {
  BATCH_HEADER_BYTES,
  type CloseReason,
  newBatchHeader,
  readBatchHeader,
  writeBatchHeader,
} from "../../src/mux/wire/batch.ts";
import { FINALIZED } from "../../src/mux/wire/stream_frame.ts";
import type { Rng } from "./rng.ts";

/** Duplicates, reorders, garbles and forges the batches of the node `hostile`; leaves all others alone. */
export function corrupt(net: MuxNet, rng: Rng, hostile: string): void {
  const kept: Uint8Array[] = [];
  net.tamper = (lane: NetLane, bytes: Uint8Array): Uint8Array[] => {
    if (lane.from.id !== hostile) return [bytes];
    switch (rng.int(0, 13)) {
      case 0:
        return [bytes, bytes];
      case 1:
        kept.push(bytes);
        return [];
      case 2:
        return [bytes, ...kept.splice(0)];
      case 3:
        return [flipped(rng, bytes)];
      case 4:
        return [bytes.slice(0, rng.int(0, bytes.length))];
      case 5:
        return [bytes, forged(rng, bytes, lane)];
      case 6:
        return [forged(rng, bytes, lane), bytes];
      case 7:
        return rng.chance(0.1) ? [withEpoch(rng, bytes)] : [bytes];
      default:
        return [bytes];
    }
  };
}

function flipped(rng: Rng, bytes: Uint8Array): Uint8Array {
  const copy = bytes.slice();
  for (let n = rng.int(1, 4); n > 0; n--) copy[rng.int(0, copy.length - 1)]! ^= 1 << rng.int(0, 7);
  return copy;
}

function withEpoch(rng: Rng, bytes: Uint8Array): Uint8Array {
  const header = newBatchHeader();
  const copy = bytes.slice();
  if (!readBatchHeader(copy, header)) return copy;
  const epoch = rng.chance(0.5) ? header.epoch + BigInt(rng.int(1, 3)) : BigInt(rng.int(0, 5));
  writeBatchHeader(copy, 0, header.flags, header.recordCount, epoch, header.seq);
  return copy;
}

/** A batch of the same epoch with records nobody should have sent. */
function forged(rng: Rng, bytes: Uint8Array, lane: NetLane): Uint8Array {
  const header = newBatchHeader();
  readBatchHeader(bytes, header);
  const buffer = new RecordBuffer(256);
  const slot = () =>
    rng.pick([rng.int(0, 4) << 8, (rng.int(0, 4) << 8) | 1, 0xffff_ffff, rng.int(0, 0xffff_ffff)]);
  const junk = Uint8Array.from({ length: rng.int(0, 40) }, () => rng.int(0, 255));
  for (let n = rng.int(1, 6); n > 0; n--) {
    switch (rng.int(0, 7)) {
      case 0:
        buffer.appendOpenSlot(
          slot(),
          rng.chance(0.5) ? 2n ** 64n - 1n : BigInt(rng.int(0, 60)),
          BigInt(rng.int(0, 9)),
        );
        break;
      case 1:
        buffer.appendCredit(slot(), rng.pick([0, 1, 0xffff_ffff]));
        break;
      case 2:
        buffer.appendClose(slot(), rng.int(0, 3), rng.int(0, 3) as CloseReason);
        break;
      case 3:
        buffer.appendHeartbeat(slot(), rng.int(0, 5));
        break;
      case 4:
        buffer.appendData(slot(), rng.int(0, 9), FINALIZED, 0, FINALIZED.length);
        break;
      case 5:
        for (let i = 0; i < 40; i++) buffer.appendItemData(slot(), i + rng.int(0, 40), junk, 0, junk.length);
        break;
      default:
        buffer.appendData(slot(), rng.int(0, 9), junk, 0, junk.length);
    }
  }
  const batch = new Uint8Array(BATCH_HEADER_BYTES + buffer.length);
  writeBatchHeader(batch, 0, lane.lane, buffer.count, header.epoch, header.seq + 1);
  batch.set(buffer.bytes.subarray(0, buffer.length), BATCH_HEADER_BYTES);
  return batch;
}
