/** Copying records out of a read buffer into chunks: by words against `set(subarray())`, in ns per record. */
import { copyBytes } from "../src/bytes.ts";
import { WordCopy } from "../src/frontend/egress/word_copy.ts";
import { benchPerUnit } from "./per_unit.ts";

const BUFFER_BYTES = 262_144;
/** Between two records: their headers, of any length, so that words lie anyhow. */
const GAP_BYTES = 29;
const RECORDS = 512;

const source = new Uint8Array(BUFFER_BYTES);
const target = new Uint8Array(BUFFER_BYTES);

for (const bytes of [48, 180, 256, 400]) {
  const each = (copy: (at: number, start: number) => void) => () => {
    for (let n = 0, start = GAP_BYTES; n < RECORDS; n++, start += bytes + GAP_BYTES) copy(start + 1, start);
  };
  const words = new WordCopy();
  const group = `${bytes} B records`;
  benchPerUnit({
    name: `words, ${bytes} B`,
    group,
    units: RECORDS,
    unit: "record",
    reference: "none",
    baseline: true,
    run: each((at, start) => words.copy(target, at, source, start, start + bytes)),
  });
  benchPerUnit({
    name: `set(subarray()), ${bytes} B`,
    group,
    units: RECORDS,
    unit: "record",
    reference: "none",
    run: each((at, start) => copyBytes(target, at, source, start, start + bytes)),
  });
}
